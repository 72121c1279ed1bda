//! The page: its sections, in the order a reader asks for them.

use super::html::{Section, esc};
use super::published::Reference;
use super::thin::{PICTURED_POINTS, thinned};
use super::{
    IndexEntry, ReportData, Severity, downloads, effects, heat_map, index, large, overview, points, published, story,
    sweep,
};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// The report as an HTML document that is also well-formed XML.
///
/// The same data gives the same bytes.
pub fn render(data: &ReportData) -> String {
    let is_large = large::is_large(data);
    let data = &thinned(data, if is_large { large::PICTURED } else { PICTURED_POINTS });
    let sections = sections(data);
    let title = if data.title.is_empty() { "Untitled experiment" } else { &data.title };
    let links: Vec<(String, &str)> = sections.iter().map(|section| (section.id.to_owned(), section.heading)).collect();
    let body = header(data, title) + &sections.iter().map(Section::html).collect::<String>();
    let script = if is_large { large::script() } else { String::new() };
    document(title, &data.version, &links, &body, &script)
}

/// A report: its page, and the data beside it of an experiment that is too
/// large for one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pages {
    /// The page.
    pub page: String,
    /// Files beside it: name and contents.
    pub beside: Vec<(String, String)>,
}

/// The report of an experiment of any size.
pub fn pages(data: &ReportData) -> Pages {
    let beside = large::is_large(data).then(|| (large::FILE.to_owned(), large::file(&data.points)));
    Pages { page: render(data), beside: beside.into_iter().collect() }
}

/// A page over many experiments, each with its published values.
pub fn render_index(title: &str, entries: &[IndexEntry]) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut links: Vec<(String, &str)> = vec![("all".to_owned(), "All experiments")];
    links.extend(entries.iter().enumerate().map(|(index, entry)| (format!("experiment-{index}"), entry.name.as_str())));
    let body = format!("<header><h1>{}</h1></header>\n{}", esc(title), index::body(entries));
    document(title, version, &links, &body, "")
}

/// A whole page: contents with `links` to (anchor, heading), then `body`; `data`
/// are scripts that come before the page's own.
fn document(title: &str, version: &str, links: &[(String, &str)], body: &str, data: &str) -> String {
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n<meta name=\"generator\" content=\"plumb {}\"/>\n\
         <title>{}</title>\n<style>/*<![CDATA[*/\n{STYLE}/*]]>*/</style>\n</head>\n<body>\n",
        esc(version),
        esc(title)
    );
    out += "<nav aria-label=\"Contents\"><a class=\"home\" href=\"#top\">Contents</a><ol>";
    for (anchor, heading) in links {
        out += &format!("<li><a href=\"#{anchor}\">{}</a></li>", esc(heading));
    }
    out +=
        "</ol><button id=\"theme\" type=\"button\" hidden=\"hidden\">Dark or light</button></nav>\n<main id=\"top\">\n";
    out += body;
    out += &format!("<footer>Made by Plumb {}.</footer>\n</main>\n", esc(version));
    out += data;
    out + &format!("<script>//<![CDATA[\n{SCRIPT}//]]></script>\n</body>\n</html>\n")
}

fn header(data: &ReportData, title: &str) -> String {
    let mut out = format!("<header><h1>{}</h1>\n", esc(title));
    for paragraph in data.description.split("\n\n").map(str::trim).filter(|paragraph| !paragraph.is_empty()) {
        out += &format!("<p class=\"lead\">{}</p>\n", esc(paragraph));
    }
    let mut facts: Vec<String> = Vec::new();
    match &data.devices[..] {
        [] => {}
        [device] => facts.push(format!("<b>{}</b>", esc(&device.name))),
        devices => facts.push(format!("{} devices", devices.len())),
    }
    if data.points.len() > 1 {
        facts.push(format!("{} points", data.points.len()));
    }
    if !data.spec_hash.is_empty() {
        facts.push(format!("spec <code>{}</code>", esc(&data.spec_hash)));
    }
    if let Some(date) = &data.date {
        facts.push(esc(date).to_string());
    }
    if !facts.is_empty() {
        out += &format!("<p class=\"facts\">{}</p>\n", facts.join("<span> · </span>"));
    }
    if let Some(source) = &data.source {
        out += &format!("<p class=\"facts\">After: {}</p>\n", esc(source));
    }
    for warning in &data.warnings {
        let (class, word) = match warning.severity {
            Severity::Shortfall => ("warning short", "Shortfall"),
            Severity::Caution => ("warning caution", "Caution"),
            Severity::Note => ("warning", "Note"),
        };
        out += &format!("<p class=\"{class}\" role=\"note\"><b>{word}.</b> {}</p>\n", esc(&warning.text));
    }
    out + "</header>\n"
}

fn sections(data: &ReportData) -> Vec<Section> {
    let alone = data.points.len() == 1;
    // Without points it is a comparison with measurements: its charts come first.
    let compares = data.points.is_empty() && !data.plots.is_empty();
    let reference = if compares { Reference::Measured } else { Reference::Published };
    let charts = data.plots.iter().filter_map(|plot| sweep::plot(plot, reference, only_programs(data)));
    let charts: String = charts.collect();
    let (early, late) = if compares { (charts, String::new()) } else { (String::new(), charts) };
    let candidates = [
        ("summary", "Summary", if compares { String::new() } else { summary(data) }),
        ("interference", heading(data), if compares { String::new() } else { interference(data) }),
        ("errors", "Errors", data.effects.iter().filter(|_| compares).map(effects::table).collect()),
        ("curves", "Measured and modelled", early),
        ("published", reference.heading(), published::comparisons(&data.comparisons, reference).unwrap_or_default()),
        ("sweep", "Across the sweep", late),
        ("together", "Points together", points::overlay(&data.points)),
        ("points", if alone { "In detail" } else { "Each point" }, details(data)),
        ("request", "The way of one request", data.stories.iter().map(story::story).collect()),
        ("device", if data.devices.len() > 1 { "Devices" } else { "Device" }, devices(data)),
        ("again", "To run it again", again(data)),
    ];
    let filled = candidates.into_iter().filter(|(.., body)| !body.is_empty());
    filled.map(|(id, heading, body)| Section { id, heading, body }).collect()
}

/// What the section of values made of several points is called.
fn heading(data: &ReportData) -> &'static str {
    match (&data.effects, data.heat_maps.is_empty(), data.derived.is_empty()) {
        (Some(_), ..) => "Interference",
        (None, true, _) => "Derived values",
        (None, false, true) => "Maps",
        (None, false, false) => "Maps and derived values",
    }
}

fn interference(data: &ReportData) -> String {
    let maps = data.heat_maps.iter().filter_map(heat_map::panels);
    data.effects
        .iter()
        .map(|table| effects::table(table) + effects::MEASURES)
        .chain(maps)
        .chain(effects::derived(&data.derived))
        .collect()
}

/// Whether programs ran and no jobs, so that pictures are all there is.
fn only_programs(data: &ReportData) -> bool {
    let served = data.points.iter().any(|point| !point.directions.is_empty());
    !served && data.points.len() > 1 && !data.plots.is_empty()
}

fn summary(data: &ReportData) -> String {
    let body = match &data.points[..] {
        [] => "<p>No point has finished.</p>\n".to_owned(),
        [point] => overview::figures(point),
        points if large::is_large(data) => {
            let first = overview::table(&points[..large::LISTED], 0, large::PICTURED);
            return large::index(&first, points.len()) + &large::links();
        }
        points if only_programs(data) => {
            format!("<p>{} points; what was measured is <a href=\"#sweep\">below</a>.</p>\n", points.len())
        }
        points => overview::table(points, data.points_before, PICTURED_POINTS),
    };
    body + &downloads::links(data)
}

fn details(data: &ReportData) -> String {
    let alone = data.points.len() == 1 && data.points_before == 0;
    let mut out = String::new();
    let pictured = if large::is_large(data) { large::PICTURED } else { PICTURED_POINTS };
    if data.points.len() > pictured {
        out += &large::note(pictured, data.points.len());
    }
    for (index, point) in data.points.iter().enumerate().take(pictured) {
        out += &points::point(data.points_before + index, point, alone);
    }
    out
}

fn devices(data: &ReportData) -> String {
    let mut out = String::new();
    for device in &data.devices {
        out += &format!("<h3><code>{}</code></h3>\n", esc(&device.name));
        if !device.description.is_empty() {
            out += &format!("<p>{}</p>\n", esc(&device.description));
        }
        if !device.facts.is_empty() {
            out += "<div class=\"scroll\"><table class=\"facts\"><tbody>";
            for (name, value) in &device.facts {
                out += &format!("<tr><th scope=\"row\">{}</th><td>{}</td></tr>", esc(name), esc(value));
            }
            out += "</tbody></table></div>\n";
        }
    }
    out
}

fn again(data: &ReportData) -> String {
    let mut out = String::new();
    if let Some(command) = &data.command {
        out += &format!("<pre class=\"command\">{}</pre>\n", esc(command));
    }
    out += "<table class=\"facts\"><tbody>";
    let mut fact = |name: &str, value: String| {
        if !value.is_empty() {
            out += &format!("<tr><th scope=\"row\">{name}</th><td>{value}</td></tr>");
        }
    };
    fact("Plumb", esc(&data.version).to_string());
    fact(
        "Spec",
        if data.spec_hash.is_empty() { String::new() } else { format!("<code>{}</code>", esc(&data.spec_hash)) },
    );
    fact(if data.seeds.len() == 1 { "Seed" } else { "Seeds" }, seeds(&data.seeds));
    let overrides: Vec<String> = data.overrides.iter().map(|text| format!("<code>{}</code>", esc(text))).collect();
    fact("Overrides", overrides.join("<br/>"));
    out += "</tbody></table>\n";
    if !data.spec_text.is_empty() {
        out += &format!(
            "<details open=\"open\"><summary>The spec as it ran</summary><pre>{}</pre></details>\n",
            esc(&data.spec_text)
        );
    }
    out
}

/// `1, 2, 3` or, for many in a row, `1 to 30`.
fn seeds(seeds: &[u64]) -> String {
    let consecutive = seeds.windows(2).all(|pair| pair[0].checked_add(1) == Some(pair[1]));
    match seeds {
        [first, .., last] if consecutive && seeds.len() > 3 => format!("{first} to {last}"),
        seeds => seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
    }
}
