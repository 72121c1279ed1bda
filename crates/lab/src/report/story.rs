//! The story of one request: its steps on a time line, and where its time went.

use trace::{Hop, Layer, Path, Step};
use units::Nanos;

use super::html::esc;
use super::number::show;
use super::{Story, Unit};

/// Steps drawn at most; a large request touches hundreds of dies.
const STEPS: usize = 80;

/// Where in the stack a layer is; each part has its colour.
fn part(layer: Layer) -> (&'static str, usize) {
    match layer {
        Layer::Jobs | Layer::Cpus => ("application and kernel", 0),
        Layer::HostQueues | Layer::NvmeQueues => ("queues", 3),
        Layer::Controller | Layer::Link | Layer::Buffer => ("device front end", 2),
        Layer::Channels | Layer::Dies | Layer::Mechanism => ("media", 1),
    }
}

/// One request as a picture and a table.
pub(super) fn story(story: &Story) -> String {
    let Story { title, path } = story;
    let mut out = format!(
        "<article class=\"story\"><h3>{}</h3><p>Request {} began {} into the run and took <b>{}</b>{}.{}</p>",
        esc(title),
        path.request.0,
        time(path.start),
        time(path.duration()),
        headline(path),
        if path.end > path.completed {
            format!(" The device worked on it for another {}.", time(path.end.since(path.completed)))
        } else {
            String::new()
        }
    );
    out += &whole(path);
    out += "<table class=\"gantt\"><thead><tr><th>Step</th><th class=\"lane\"><div class=\"ruler\">";
    for quarter in [0, 2, 4] {
        let at = Nanos((u128::from(path.end.since(path.start).0) * quarter / 4) as u64);
        out += &format!("<span style=\"left:{}%\">{}</span>", quarter * 25, time(at));
    }
    out += "</div></th><th class=\"n\">Start</th><th class=\"n\">Open</th><th class=\"n\">Own</th></tr></thead><tbody>";
    for hop in path.hops.iter().take(STEPS) {
        out += &row(path, hop);
    }
    out += "</tbody></table>";
    if path.hops.len() > STEPS {
        out +=
            &format!("<p class=\"note\">And {} more steps; the event table has them all.</p>", path.hops.len() - STEPS);
    }
    out + "<p class=\"note\">A pale bar shows when a step was open; the strong part is its own time, in which no deeper \
           layer worked for this request. Own times add up to the whole; steps that go on after the application saw it done (the thin \
           line) have none. The own time of a queue or a command is waiting for something that is not drawn here, such as another \
           request's die; what the link and the firmware take has steps of its own.</p>\
           </article>\n"
}

/// The largest own times: `: 62.1 % flash read, 20.0 % channel transfer`.
fn headline(path: &Path) -> String {
    let mut totals = totals(path);
    totals.sort_by_key(|total| std::cmp::Reverse(total.2));
    let named: Vec<String> = totals
        .iter()
        .filter(|(_, _, own)| path.share(*own) >= 0.01)
        .take(3)
        .map(|(name, _, own)| format!("{} {}", show(path.share(*own), &Unit::Fraction), esc(name)))
        .collect();
    if named.is_empty() { String::new() } else { format!(": {}", named.join(", ")) }
}

/// One bar of all own times, in the order of the stack.
fn whole(path: &Path) -> String {
    let mut out = String::from("<div class=\"whole\">");
    for (name, colour, own) in totals(path) {
        out += &format!(
            "<i class=\"c{colour}\" style=\"width:{:.3}%\" title=\"{}: {}, {}\"></i>",
            path.share(own) * 100.0,
            esc(&name),
            time(own),
            show(path.share(own), &Unit::Fraction)
        );
    }
    if path.unrecorded > Nanos::ZERO {
        out += &format!(
            "<i class=\"gap\" style=\"width:{:.3}%\" title=\"not recorded: {}\"></i>",
            path.share(path.unrecorded) * 100.0,
            time(path.unrecorded)
        );
    }
    out += "</div><div class=\"legend\">";
    let mut parts: Vec<_> =
        path.hops.iter().map(|hop| hop.span.track.layer()).map(|layer| (layer, part(layer))).collect();
    parts.sort();
    parts.dedup_by_key(|(_, part)| *part);
    for (_, (name, colour)) in parts {
        out += &format!("<span class=\"key block c{colour}\"><i></i>{name}</span>");
    }
    out + "</div>"
}

/// Own time by layer and step, in the order of the stack: (name, colour, time).
fn totals(path: &Path) -> Vec<(String, usize, Nanos)> {
    let mut hops: Vec<&Hop> = path.hops.iter().collect();
    hops.sort_by_key(|hop| (hop.span.track.layer(), hop.span.step));
    hops.chunk_by(|a, b| (a.span.track.layer(), a.span.step) == (b.span.track.layer(), b.span.step))
        .map(|same| {
            let layer = same[0].span.track.layer();
            let own: Nanos = same.iter().map(|hop| hop.own_time()).sum();
            (own_name(layer, same[0].span.step), part(layer).1, own)
        })
        .filter(|(_, _, own)| *own > Nanos::ZERO)
        .collect()
}

/// What a layer's own time is spent on.
fn own_name(layer: Layer, step: Step) -> String {
    match layer {
        Layer::Jobs => "the application".to_owned(),
        Layer::HostQueues => "the block layer's queue".to_owned(),
        Layer::NvmeQueues => "waiting inside the device".to_owned(),
        _ => step.to_string(),
    }
}

fn row(path: &Path, hop: &Hop) -> String {
    let extent = path.end.since(path.start).0.max(1) as f64;
    let place = |at: Nanos| at.since(path.start).0 as f64 / extent * 100.0;
    let bar = |class: &str, from: Nanos, to: Nanos| {
        let (left, right) = (place(from), place(to));
        format!("<i{class} style=\"left:{left:.3}%;width:{:.3}%\"></i>", right - left)
    };
    let span = &hop.span;
    let mut bars = bar("", span.start, span.end);
    if path.end > path.completed {
        bars += &format!("<i class=\"done\" style=\"left:{:.3}%\"></i>", place(path.completed));
    }
    for (from, to) in &hop.own {
        bars += &bar(" class=\"own\"", *from, *to);
    }
    let own = hop.own_time();
    let (_, colour) = part(span.track.layer());
    format!(
        "<tr><th scope=\"row\"><b>{}</b> <small>{}</small></th><td class=\"lane c{colour}\" \
         title=\"{} on {}: {} to {}\"><div>{bars}</div></td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
         <td class=\"n\">{}</td></tr>",
        span.step,
        span.track,
        span.step,
        span.track,
        time(span.start.since(path.start)),
        time(span.end.since(path.start)),
        time(span.start.since(path.start)),
        time(hop.duration()),
        if own == Nanos::ZERO { "–".to_owned() } else { show(path.share(own), &Unit::Fraction) }
    )
}

fn time(time: Nanos) -> String {
    show(time.0 as f64, &Unit::Time)
}
