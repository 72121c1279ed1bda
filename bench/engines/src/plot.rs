//! A picture: for each phase, how many operations each engine did in a second, on the wall and of the processor, as a share of the best.

use std::fmt::Write;

use crate::Outcome;
use crate::measure::Measured;
use crate::table::{find, phases};

/// Colours that are told apart by people who see colours differently (Okabe and Ito, 2008).
const COLOURS: [&str; 5] = ["#0072b2", "#d55e00", "#009e73", "#e69f00", "#cc79a7"];
const LEFT: f64 = 190.0;
const PANEL: f64 = 330.0;
const GAP: f64 = 40.0;
const BAR: f64 = 7.0;
const TOP: f64 = 54.0;

fn panel(svg: &mut String, outcomes: &[Outcome], x: f64, title: &str, rate: impl Fn(&Measured) -> f64) {
    let group = BAR * outcomes.len() as f64 + 9.0;
    let _ = writeln!(svg, r#"<text x="{x}" y="{}" font-weight="bold">{title}</text>"#, TOP - 10.0);
    for (row, phase) in phases(outcomes).iter().enumerate() {
        let rates: Vec<Option<f64>> = outcomes.iter().map(|outcome| find(outcome, phase).map(&rate)).collect();
        let best = rates.iter().flatten().copied().fold(0.0, f64::max);
        for (index, own) in rates.iter().enumerate() {
            let share = own.map_or(0.0, |own| own / best.max(1e-9));
            let y = TOP + row as f64 * group + index as f64 * BAR;
            let colour = COLOURS[index % COLOURS.len()];
            let _ = writeln!(
                svg,
                r#"<rect x="{x}" y="{y:.1}" width="{:.1}" height="{:.1}" fill="{colour}"><title>{}: {:.0}/s</title></rect>"#,
                share * PANEL,
                BAR - 1.0,
                outcomes[index].version,
                own.unwrap_or(0.0)
            );
        }
    }
}

pub fn plot(outcomes: &[Outcome]) -> String {
    let group = BAR * outcomes.len() as f64 + 9.0;
    let names = phases(outcomes);
    let (width, height) = (LEFT + 2.0 * PANEL + GAP + 20.0, TOP + names.len() as f64 * group + 10.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (index, outcome) in outcomes.iter().enumerate() {
        let x = 10.0 + index as f64 * 178.0;
        let _ =
            writeln!(svg, r#"<rect x="{x}" y="8" width="10" height="10" fill="{}"/>"#, COLOURS[index % COLOURS.len()]);
        let _ = writeln!(svg, r#"<text x="{}" y="18">{}</text>"#, x + 14.0, outcome.version);
    }
    for (row, name) in names.iter().enumerate() {
        let y = TOP + row as f64 * group + group / 2.0;
        let _ = writeln!(svg, r#"<text x="{}" y="{y:.1}" text-anchor="end">{name}</text>"#, LEFT - 8.0);
    }
    let rate = |operations: u64, seconds: f64| operations as f64 / seconds.max(1e-6);
    panel(&mut svg, outcomes, LEFT, "a second on the wall, share of the best", |one| rate(one.operations, one.wall_s));
    panel(&mut svg, outcomes, LEFT + PANEL + GAP, "a second of the processor, share of the best", |one| {
        rate(one.operations, one.processor_s)
    });
    svg.push_str("</svg>\n");
    svg
}
