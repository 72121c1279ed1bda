//! Reports judged by an XML parser, hostile text, odd numbers and size.
#![allow(clippy::unwrap_used)]

mod demo;

use lab::report::*;
use trace::Path;
use units::Nanos;

/// Parses the page as XML, stricter than any browser, and checks what a reader
/// relies on: unique anchors, links that lead somewhere, no network.
fn check(page: &str) {
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let document = roxmltree::Document::parse_with_options(page, options).unwrap_or_else(|error| {
        let line = page.lines().nth(error.pos().row as usize - 1).unwrap_or_default();
        panic!("{error}: {}", line.chars().take(2000).collect::<String>())
    });
    let mut ids = std::collections::BTreeSet::new();
    for node in document.descendants() {
        if let Some(id) = node.attribute("id") {
            assert!(ids.insert(id.to_owned()), "id {id} twice");
        }
    }
    for node in document.descendants() {
        for name in ["href", "src", "for"] {
            let Some(target) = node.attribute(name) else { continue };
            match target.strip_prefix('#') {
                Some(id) => assert!(ids.contains(id), "link to {id} leads nowhere"),
                None if name == "for" => assert!(ids.contains(target), "label of {target}"),
                None => assert!(target.starts_with("data:"), "{name} leaves the file: {}", &target[..40]),
            }
        }
        for attribute in node.attributes().filter(|attribute| attribute.name() != "href") {
            let value = attribute.value();
            assert!(!["NaN", "inf%", "inf ", "-inf"].iter().any(|odd| value.contains(odd)), "{attribute:?}");
        }
        if node.has_tag_name("path")
            && let Some(path) = node.attribute("d")
        {
            let good = path.chars().all(|c| c.is_ascii_digit() || "MLHVZh ".contains(c));
            assert!(good, "a path with {path}");
        }
    }
    assert!(!page.contains("url("), "style sheets may load things");
}

fn visible_text(page: &str) -> String {
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let document = roxmltree::Document::parse_with_options(page, options).unwrap();
    let main = document.descendants().find(|node| node.has_tag_name("main")).unwrap();
    let texts = main.descendants().filter(|node| node.is_text()).filter_map(|node| node.text());
    texts.collect::<Vec<_>>().join("|").replace('\u{a0}', " ")
}

#[test]
fn a_full_report_says_everything() {
    let data = demo::single();
    let page = render(&data);
    check(&page);
    assert_eq!(page, render(&data), "the same data gives the same bytes");
    let text = visible_text(&page);
    for part in [
        "Random read and write on one drive",
        "Shortfall.",
        "Run 3 served 99,812 of 100,000 requests",
        "212 kIOPS|± 2.5 kIOPS",
        "p99.9|341 ± 4.1 µs",
        "p99 247 µs",
        "✗ |+16 %",
        "not measured",
        "plumb run experiments/quickstart.toml",
        "stack.device=samsung-980pro-1tb",
        "1 to 5",
        "Write amplification|2.13×",
        "took |98.4 µs",
        "60.0 % flash read",
        "took |19.2 µs",
        "The device worked on it for another 111 µs.",
        "Die 44 (channel 5)",
        "channel 7",
        "fio 3.36 on the device itself",
    ] {
        let joined = text.replace("✗ +", "✗ |+");
        assert!(joined.contains(part), "no {part:?} in {text}");
    }
}

#[test]
fn a_sweep_compares_its_points() {
    let page = render(&demo::sweep(4));
    check(&page);
    let text = visible_text(&page);
    assert!(text.contains("read latency at each point"), "{text}");
    assert!(text.contains("Point 7: device = optane-905p-960gb, iodepth = 8"), "{text}");
    assert!(text.contains("published"), "{text}");
    // Twelve points are too many lines for one picture.
    assert!(!render(&demo::sweep(6)).contains("latency at each point"));
}

#[test]
fn an_empty_report_is_a_page() {
    let page = render(&ReportData::default());
    check(&page);
    assert!(visible_text(&page).contains("No point has finished."));
    let point = PointData::default();
    let page = render(&ReportData { points: vec![point.clone(), point], ..ReportData::default() });
    check(&page);
    let text = visible_text(&page);
    assert!(text.contains("No request was served here.") && text.contains("(no request served)"), "{text}");
}

/// Programs serve no request of a job: what they took stands in a table below the picture.
#[test]
fn a_report_of_programs_says_its_figures() {
    let took = |value: f64| Estimate { value, ..Estimate::default() };
    let line = |name: &str, values: [f64; 2]| SweepLine {
        name: name.to_owned(),
        points: values.into_iter().enumerate().map(|(at, value)| (at as f64, took(value))).collect(),
        ..SweepLine::default()
    };
    let name = "a name of a row that is as long as a whole sentence, and another one beside it";
    let plot = SweepPlot {
        x_label: "ROW".to_owned(),
        x_names: vec![name.to_owned(), "<b>".to_owned()],
        y_label: "elapsed".to_owned(),
        y_unit: Unit::Time,
        lines: vec![line("one", [2e6, 3e6]), line("other", [4e6, 5e6])],
        ..SweepPlot::default()
    };
    let programs = vec![PointData::default(); 2];
    let page = render(&ReportData { points: programs, plots: vec![plot.clone()], ..ReportData::default() });
    check(&page);
    let text = visible_text(&page);
    assert!(!text.contains("no request served") && text.contains("2 points; what was measured is"), "{text}");
    assert!(["2.00", "3.00", "4.00", "5.00"].iter().all(|value| text.contains(value)), "{text}");
    assert!(page.contains("grid-template-rows: 17rem 2.7rem"), "long names stand in two rows");
    let mut jobs = demo::sweep(2);
    jobs.plots = vec![plot];
    let text = visible_text(&render(&jobs));
    assert!(!text.contains("5.00"), "{text}");
}

#[test]
fn a_thousand_points_stay_small() {
    let mut data = demo::sweep(5);
    data.points = data.points.iter().cloned().cycle().take(1000).collect();
    let pages = pages(&data);
    let [(name, beside)] = &pages.beside[..] else { panic!("{:?}", pages.beside.len()) };
    let link = format!("<script src=\"{name}\"></script>");
    assert!(pages.page.contains(&link));
    let rows = beside.strip_prefix("var plumbPoints = ").unwrap().trim_end().strip_suffix(';').unwrap();
    let rows: serde_json::Value = serde_json::from_str(rows).unwrap();
    let last = rows["rows"].as_array().unwrap().last().unwrap();
    assert_eq!((&last[0], last[1].as_array().unwrap().len()), (&serde_json::json!(999), 2));
    assert!(beside.len() < 300_000, "{} bytes", beside.len());
    // Without what lies beside it, it is a page like any other.
    let page = pages.page.replace(&link, "");
    let page = page.replace("href=\"runs", "href=\"data:runs").replace("href=\"latency", "href=\"data:latency");
    let page = page.replace("href=\"counters", "href=\"data:counters");
    check(&page);
    assert!(page.len() < 2_500_000, "{} bytes", page.len());
    assert!(visible_text(&page).contains("The first 24 of 1000 points are drawn"));
    let longest = page.split("class=\"stroke\" d=\"").skip(1).map(|rest| rest.split('"').next().unwrap());
    let points = longest.map(|path| path.split(['M', 'L']).count() - 1).max().unwrap();
    assert!((150..=401).contains(&points), "a curve of {points} points");
}

/// Every text of a report, hostile.
fn hostile(text: &str) -> ReportData {
    let own = || text.to_owned();
    let mut data = demo::single();
    let sweep = demo::sweep(2);
    data.points = sweep.points;
    data.plots = sweep.plots;
    data.title = own();
    data.description = format!("{text}\n\n{text}");
    data.source = Some(own());
    data.date = Some(own());
    data.version = own();
    data.spec_hash = own();
    data.command = Some(own());
    data.spec_text = own();
    data.overrides = vec![own()];
    for warning in &mut data.warnings {
        warning.text = own();
    }
    for device in &mut data.devices {
        (device.name, device.description) = (own(), own());
        device.facts = vec![(own(), own())];
    }
    for comparison in &mut data.comparisons {
        (comparison.metric, comparison.at) = (own(), own());
        (comparison.source, comparison.note, comparison.unit) = (own(), own(), Unit::Named(own()));
    }
    for story in &mut data.stories {
        story.title = own();
    }
    data.plots[0].facets = vec![(own(), data.plots[0].lines.clone())];
    data.plots[0].left_out = own();
    for plot in &mut data.plots {
        (plot.title, plot.x_label, plot.y_label) = (own(), own(), own());
        (plot.x_unit, plot.y_unit) = (Unit::Named(own()), Unit::Named(own()));
        plot.x_names.iter_mut().for_each(|name| *name = own());
        plot.lines.iter_mut().for_each(|line| line.name = own());
    }
    for point in &mut data.points {
        point.parameters = vec![(own(), own())];
        point.directions.iter_mut().for_each(|direction| direction.name = own());
        point.utilisation.parts = vec![(own(), 0.5)];
        for group in &mut point.counters {
            group.name = own();
            for counter in &mut group.counters {
                (counter.name, counter.unit) = (own(), Unit::Named(own()));
            }
        }
    }
    data
}

#[test]
fn hostile_text_stays_text() {
    for text in [
        "</title></style></script><script>alert(1)</script>",
        "\"' onmouseover=alert(1) x='",
        "]]><img src=x onerror=alert(1)>",
        "&amp;&lt;&#0;&nbsp;",
        "\u{0}\u{8}\u{1b}[31m\u{fffe}\u{202e}",
        "a|b|c\r\nd\te",
        "",
    ] {
        let page = render(&hostile(text));
        check(&page);
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
        let document = roxmltree::Document::parse_with_options(&page, options).unwrap();
        assert_eq!(document.descendants().filter(|node| node.has_tag_name("script")).count(), 1, "{text:?}");
        assert_eq!(document.descendants().filter(|node| node.has_tag_name("img")).count(), 0, "{text:?}");
        let handlers = document.descendants().flat_map(|node| node.attributes());
        assert_eq!(handlers.filter(|attribute| attribute.name().starts_with("on")).count(), 0, "{text:?}");
    }
    // What can be shown is shown as it was written.
    let text = "<b>&amp;\"it's\"</b>";
    assert!(visible_text(&render(&hostile(text))).contains(text));
}

#[test]
fn odd_numbers_leave_no_trace() {
    for odd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, 1e300, 5e-324] {
        let estimate = Estimate { value: odd, half_width: Some(odd) };
        let mut data = demo::single();
        let sweep = demo::sweep(2);
        data.points = sweep.points;
        data.plots = sweep.plots;
        for point in &mut data.points {
            point.duration_ns = odd;
            for direction in &mut point.directions {
                direction.requests = odd;
                (direction.iops, direction.bandwidth, direction.latency_mean_ns) = (estimate, estimate, estimate);
                direction.latency_percentiles_ns = vec![(50.0, estimate), (99.0, estimate)];
                direction.latency_cdf = vec![(odd, 0.2), (2.0, odd), (3.0, 0.7)];
                let sample = |at_ns, value| ThroughputSample {
                    at_ns,
                    bytes_per_s: value,
                    iops: value,
                    latency_mean_ns: Some(value),
                    latency_max_ns: Some(value),
                };
                direction.throughput = vec![sample(0.0, odd), sample(odd, 1.0), sample(1.0, 1.0), sample(2.0, 3.0)];
            }
            point.utilisation.parts = vec![("Link".to_owned(), odd)];
            for channel in &mut point.utilisation.channels {
                channel.bus = odd;
                channel.dies[0] = odd;
            }
            for counter in point.counters.iter_mut().flat_map(|group| &mut group.counters) {
                counter.value = odd;
            }
        }
        for plot in &mut data.plots {
            for line in &mut plot.lines {
                line.points = vec![(odd, estimate), (1.0, estimate), (2.0, 5.0.into())];
                line.published = vec![(1.0, odd, odd), (odd, 1.0, 2.0)];
            }
        }
        for comparison in &mut data.comparisons {
            (comparison.published, comparison.published_to) = (odd, Some(odd));
            (comparison.ours, comparison.within) = (Some(estimate), Some(odd));
        }
        let page = render(&data);
        check(&page);
        let text = visible_text(&page);
        assert!(!text.contains("NaN") && !text.contains("inf"), "{odd}: {text}");
    }
}

#[test]
fn a_request_without_duration_is_told() {
    let mut data = demo::single();
    data.stories[0].path =
        Path { hops: Vec::new(), start: Nanos(5), completed: Nanos(5), end: Nanos(5), ..data.stories[0].path.clone() };
    check(&render(&data));
    // A large request touches more dies than a page can show.
    let mut data = demo::single();
    let hops = data.stories[0].path.hops.clone();
    data.stories[0].path.hops = hops.into_iter().cycle().take(500).collect();
    let page = render(&data);
    check(&page);
    assert!(visible_text(&page).contains("And 420 more steps"));
}

#[test]
fn downloads_hold_the_numbers() {
    let page = render(&demo::sweep(2));
    let start = page.find("download=\"summary.csv\"").unwrap();
    let coded = page[start..].split("base64,").nth(1).unwrap().split('"').next().unwrap();
    let csv = String::from_utf8(base64(coded)).unwrap();
    let mut lines = csv.lines();
    let header = lines.next().unwrap();
    assert!(header.starts_with("point,stack.device,workload.set.iodepth,direction,repeats,duration_ns,requests,iops,"));
    let columns = header.split(',').count();
    assert!(lines.clone().all(|line| line.split(',').count() == columns), "{csv}");
    assert_eq!(lines.count(), 4);
    let start = page.find("download=\"report.json\"").unwrap();
    let coded = page[start..].split("base64,").nth(1).unwrap().split('"').next().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&base64(coded)).unwrap();
    assert_eq!(json["points"].as_array().unwrap().len(), 4);
    assert_eq!(json["points"][3]["parameters"][1][1], 2);
}

fn base64(coded: &str) -> Vec<u8> {
    let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bytes = Vec::new();
    for group in coded.as_bytes().chunks(4) {
        let digits = group.iter().filter(|c| **c != b'=');
        let word = digits.clone().fold(0u32, |word, c| word << 6 | alphabet.find(char::from(*c)).unwrap() as u32);
        let count = digits.count();
        let word = word << (6 * (4 - count));
        bytes.extend_from_slice(&word.to_be_bytes()[1..count]);
    }
    bytes
}
