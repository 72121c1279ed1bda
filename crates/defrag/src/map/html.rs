//! The page: one picture a file, self-contained, and well-formed XML besides.

use std::fmt::Write;

use units::Printable;

use super::grid::{COLUMNS, Ink, ROWS, runs, span};
use crate::extents::ExtentMap;
use crate::plan::{FilePlan, Plan};

const STYLE: &str = include_str!("style.css");

/// A file with its picture.
#[derive(Clone, Debug)]
pub struct Pictured {
    /// What is planned for it.
    pub plan: FilePlan,
    /// Where it lies.
    pub map: ExtentMap,
}

/// The plan's totals and a picture of each of `files`, as an HTML document. The same values give the same bytes.
pub fn page(plan: &Plan, files: &[Pictured]) -> String {
    let totals = &plan.totals;
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\"/>\n<meta name=\"generator\" content=\"plumb {}\"/>\n\
         <title>Pieces of files</title>\n<style>/*<![CDATA[*/\n{STYLE}/*]]>*/</style>\n</head>\n<body>\n\
         <h1>Pieces of files</h1>\n",
        env!("CARGO_PKG_VERSION")
    );
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "<p>{} files of {} lie in {} pieces. As assumed by mode <b>{}</b>, moving {} in {} of \
         them turns {} requests of the device into {}.</p>",
        totals.files,
        size_text(totals.size_bytes),
        totals.pieces,
        plan.mode,
        size_text(totals.bytes_to_move),
        totals.files_to_move,
        totals.requests_before,
        totals.requests_after
    );
    reasons(&mut out, plan);
    out += "<p class=\"key\"><span><b class=\"moves\"></b>to be moved</span><span><b class=\"stays\"></b>stays</span>\
            <span><b class=\"fixed\"></b>shared or compressed</span></p>\n\
            <p class=\"facts\">Along each picture: the place in the file. Up it: the place on the device. A file in one \
            piece is one rising line.</p>\n";
    for file in files {
        picture(&mut out, file);
    }
    let undrawn = plan.files.len().saturating_sub(files.len());
    if undrawn > 0 {
        let _ = writeln!(out, "<p class=\"facts\">{undrawn} more files with something to move are not drawn.</p>");
    }
    out + "</body>\n</html>\n"
}

fn reasons(out: &mut String, plan: &Plan) {
    if plan.skipped_by_reason.is_empty() {
        return;
    }
    *out += "<div class=\"scroll\"><table><thead><tr><th>Left alone</th><th class=\"n\">Files</th></tr></thead><tbody>";
    for (reason, files) in &plan.skipped_by_reason {
        let _ = write!(out, "<tr><td>{}</td><td class=\"n\">{files}</td></tr>", escaped(reason));
    }
    *out += "</tbody></table></div>\n";
}

fn picture(out: &mut String, file: &Pictured) {
    let plan = &file.plan;
    let name = escaped(&Printable::path(&plan.file.path).to_string());
    let _ = writeln!(
        out,
        "<h2>{name}</h2>\n<p class=\"facts\">{} in {} pieces; {} in {} moves turn {} requests into {}</p>",
        size_text(plan.file.size_bytes),
        plan.pieces,
        size_text(plan.bytes()),
        plan.moves.len(),
        plan.requests_before,
        plan.requests_after
    );
    let mut paths = [(Ink::Stays, "stays"), (Ink::Fixed, "fixed"), (Ink::Moves, "moves")]
        .map(|(ink, class)| (ink, class, String::new()));
    for ((ink, row, column), length) in runs(&file.map, &plan.moves) {
        if let Some((.., path)) = paths.iter_mut().find(|(of, ..)| *of == ink) {
            // Half a point down, so that a line of one point's width covers the row.
            let _ = write!(path, "M{column} {}.5h{length}", ROWS - 1 - row);
        }
    }
    let (low, high) = span(&file.map);
    let _ = write!(
        out,
        "<figure><div class=\"up\"><span>{}</span><span>place on the device</span><span>{}</span></div>",
        size_text(high),
        size_text(low)
    );
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {COLUMNS} {ROWS}\" role=\"img\" \
         aria-label=\"Places of the pieces of {name}\">"
    );
    for (_, class, path) in paths.iter().filter(|(.., path)| !path.is_empty()) {
        let _ = write!(out, "<path class=\"{class}\" d=\"{path}\"/>");
    }
    // A line at each quarter, where the axis has its numbers.
    for quarter in 1..4 {
        let _ = write!(out, "<path class=\"line\" d=\"M{} 0v{ROWS}\"/>", quarter * COLUMNS / 4);
    }
    *out += "</svg>\n<div class=\"along\">";
    for quarter in 0..=4_u64 {
        let at = u128::from(plan.file.size_bytes) * u128::from(quarter) / 4;
        let _ = write!(out, "<span>{}</span>", size_text(u64::try_from(at).unwrap_or(u64::MAX)));
    }
    *out += "</div><div class=\"name\">place in the file</div></figure>\n";
}

/// A size in three digits and more: `1.46 GiB`.
fn size_text(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let step = (bytes.max(1).ilog2() / 10) as usize;
    match step.checked_sub(1).and_then(|step| units.get(step)) {
        None => format!("{bytes} B"),
        Some(unit) => {
            let value = bytes as f64 / 1024_f64.powi(i32::try_from(step).unwrap_or(0));
            let decimals = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
            format!("{value:.decimals$} {unit}")
        }
    }
}

/// Text for elements and attributes; characters that XML has not are replaced.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\t' | '\n' | '\r' => out.push(' '),
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            character => out.push(character),
        }
    }
    out
}
