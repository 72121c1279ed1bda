//! A picture of what happened to a file: time along, place in the file up.

use std::fmt::Write;

use super::outcome::{Mark, Origin};

/// Cells of the grid that a file's marks are drawn in, so that a page stays small however much happened.
const COLUMNS: u64 = 720;
const ROWS: u64 = 240;

/// Layers, the lowest first: class and what it means.
const LAYERS: [(&str, &str); 5] = [
    ("resident", "in memory"),
    ("prefetch", "loaded ahead"),
    ("demand", "loaded by reads and the kernel"),
    ("hit", "read, without waiting"),
    ("wait", "read, after waiting for the device"),
];

const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1d2530; --soft: #5a6675; --line: #d5dbe3; --back: #fff;
  --resident: #e3ebf5; --prefetch: #3b6fb6; --demand: #b79b3b; --hit: #2f8a4a; --wait: #d9541e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e9f0; --soft: #9aa7b8; --line: #38424f; --back: #14181e;
  --resident: #243042; --prefetch: #7aa7e6; --demand: #dcc26a; --hit: #6fce8c; --wait: #ff8a55; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back); max-width: 62rem; margin: 2rem auto;
  padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1rem; overflow-wrap: anywhere; } p { color: var(--soft); }
svg { width: 100%; height: auto; border: 1px solid var(--line); } svg path { fill: none; stroke-width: 1.05; }
.key span { margin-right: 1.2rem; } .key b { display: inline-block; width: 1.2rem; height: .5rem; margin-right: .4rem; }
.along { display: flex; justify-content: space-between; color: var(--soft); font-size: .8rem; }
";

/// A file and its name and size.
#[derive(Clone, Debug)]
pub struct Pictured {
    /// Its place in the trace.
    pub file: usize,
    /// What it is called.
    pub name: String,
    /// Its size.
    pub bytes: u64,
}

/// An HTML page, well-formed XML besides, with a picture of each of `files` and what is said `about` all of them. The same values give
/// the same bytes.
pub fn picture(title: &str, about: &str, marks: &[Mark], files: &[Pictured], end_ns: u64) -> String {
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<title>{title}</title>\n<style>{STYLE}</style>\n\
         </head>\n<body>\n<h1>{title}</h1>\n<p class=\"key\">",
        title = escaped(title)
    );
    for (class, meaning) in LAYERS {
        let _ = write!(out, "<span><b style=\"background: var(--{class})\"></b>{meaning}</span>");
    }
    let _ = writeln!(out, "</p>\n<p>Along each picture: time. Up it: the place in the file. {}</p>", escaped(about));
    for file in files {
        one(&mut out, marks, file, end_ns.max(1));
    }
    out + "</body>\n</html>\n"
}

fn one(out: &mut String, marks: &[Mark], file: &Pictured, end_ns: u64) {
    let name = escaped(&file.name);
    let _ = write!(
        out,
        "<h2>{name}</h2>\n<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {COLUMNS} {ROWS}\" role=\"img\" \
         aria-label=\"What was read and loaded of {name}\">"
    );
    for ((class, _), cells) in LAYERS.iter().zip(layers(marks, file, end_ns)) {
        let mut path = String::new();
        for (row, columns) in cells.iter().enumerate() {
            for (from, length) in runs(columns) {
                let _ = write!(path, "M{from} {}.5h{length}", ROWS - 1 - row as u64);
            }
        }
        if !path.is_empty() {
            let _ = write!(out, "<path style=\"stroke: var(--{class})\" d=\"{path}\"/>");
        }
    }
    let _ = writeln!(
        out,
        "</svg>\n<div class=\"along\"><span>0</span><span>{} MiB in {:.3} ms</span></div>",
        file.bytes >> 20,
        end_ns as f64 / 1e6
    );
}

type Cells = Vec<Vec<bool>>;

/// Which cells of which layer have something.
fn layers(marks: &[Mark], file: &Pictured, end_ns: u64) -> [Cells; 5] {
    let mut layers: [Cells; 5] = std::array::from_fn(|_| vec![vec![false; COLUMNS as usize]; ROWS as usize]);
    let column = |at_ns: u64| scaled(at_ns, end_ns, COLUMNS);
    let row = |bytes: u64| scaled(bytes, file.bytes, ROWS);
    let mut fill = |layer: usize, from_ns: u64, to_ns: u64, start: u64, end: u64| {
        for cells in &mut layers[layer][row(start)..=row(end.saturating_sub(1).max(start))] {
            cells[column(from_ns)..=column(to_ns.max(from_ns))].fill(true);
        }
    };
    // Bytes of each row that are there, and since when.
    let mut there = vec![(0i64, 0u64); ROWS as usize];
    for mark in marks {
        match *mark {
            Mark::Read { file: of, from_ns, to_ns, start_bytes, end_bytes, hit } if of == file.file => {
                fill(if hit { 3 } else { 4 }, from_ns, to_ns, start_bytes, end_bytes);
            }
            Mark::Load { file: of, from_ns, to_ns, start_bytes, end_bytes, origin } if of == file.file => {
                fill(if origin == Origin::Prefetch { 1 } else { 2 }, from_ns, to_ns, start_bytes, end_bytes);
                let rows = row(start_bytes)..=row(end_bytes.saturating_sub(1));
                for (row, (bytes, since_ns)) in rows.clone().zip(&mut there[rows]) {
                    if *bytes == 0 {
                        *since_ns = to_ns;
                    }
                    *bytes += overlap(row, start_bytes, end_bytes, file.bytes);
                }
            }
            Mark::There { file: of, from_ns, to_ns, start_bytes, end_bytes } if of == file.file => {
                fill(0, from_ns, to_ns, start_bytes, end_bytes);
            }
            Mark::Leave { file: of, at_ns, start_bytes, end_bytes } if of == file.file => {
                let rows = row(start_bytes)..=row(end_bytes.saturating_sub(1));
                for (row, (bytes, since_ns)) in rows.clone().zip(&mut there[rows]) {
                    *bytes -= overlap(row, start_bytes, end_bytes, file.bytes);
                    if *bytes <= 0 {
                        *bytes = 0;
                        let start = (row as u64 * file.bytes).div_ceil(ROWS);
                        fill(0, *since_ns, at_ns, start, start + 1);
                    }
                }
            }
            _ => {}
        }
    }
    for (row, (bytes, since_ns)) in there.into_iter().enumerate() {
        if bytes > 0 {
            let start = (row as u64 * file.bytes).div_ceil(ROWS);
            fill(0, since_ns, end_ns, start, start + 1);
        }
    }
    layers
}

/// Bytes that a range and a row share.
fn overlap(row: usize, start_bytes: u64, end_bytes: u64, file_bytes: u64) -> i64 {
    let edge = |row: u64| (row * file_bytes).div_ceil(ROWS);
    let (low, high) = (edge(row as u64), edge(row as u64 + 1));
    end_bytes.min(high).saturating_sub(start_bytes.max(low)) as i64
}

fn scaled(value: u64, whole: u64, cells: u64) -> usize {
    (u128::from(value) * u128::from(cells) / u128::from(whole.max(1))).min(u128::from(cells - 1)) as usize
}

/// Runs of filled cells: the first and how many.
fn runs(cells: &[bool]) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for at in (0..cells.len()).filter(|at| cells[*at]) {
        match runs.last_mut() {
            Some((from, length)) if *from + *length == at => *length += 1,
            _ => runs.push((at, 1)),
        }
    }
    runs
}

/// Text for elements and attributes; characters that XML has not are replaced.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        match character {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'.. => out.push(character),
            _ => out.push('\u{fffd}'),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_each_layer_where_it_happened() {
        let file = Pictured { file: 0, name: "a<b".into(), bytes: 240 * 4096 };
        let (start_bytes, end_bytes) = (0, 4096);
        let marks = [
            Mark::Load { file: 0, from_ns: 0, to_ns: 100, start_bytes, end_bytes, origin: Origin::Prefetch },
            Mark::Read { file: 0, from_ns: 200, to_ns: 200, start_bytes, end_bytes, hit: true },
            Mark::Leave { file: 0, at_ns: 360, start_bytes, end_bytes },
            Mark::Read { file: 1, from_ns: 200, to_ns: 300, start_bytes, end_bytes, hit: false },
        ];
        let there = Mark::There { file: 0, from_ns: 700, to_ns: 719, start_bytes, end_bytes };
        assert_eq!(runs(&layers(&[there], &file, 720)[0][0]), vec![(700, 20)]);
        let found = layers(&marks, &file, 720);
        let of = |layer: usize| runs(&found[layer][0]);
        assert_eq!((of(0), of(1), of(3)), (vec![(100, 261)], vec![(0, 101)], vec![(200, 1)]));
        assert!(found[2].iter().chain(&found[4]).flatten().all(|cell| !cell), "another file's");
        assert!(found.iter().all(|cells| cells[1..].iter().flatten().all(|cell| !cell)));
        let page = picture("x", "y & z", &marks, &[file], 720);
        assert!(page.contains("a&lt;b") && page.contains("y &amp; z") && page.contains("M100 239.5h261"), "{page}");
    }
}
