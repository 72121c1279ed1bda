//! A line chart: SVG for the lines, page text around it for the words.
//!
//! The drawing stretches to the width it is given while text and strokes keep
//! their size, so one picture serves a phone, a screen and paper. Coordinates
//! are whole numbers of a ten-thousandth of the plot, from which the page's
//! script reads values back for its tooltips.

use super::html::esc;
use super::published::Reference;
use super::scale::{Axis, Spread};

/// Side of the drawing in its own units.
const SIDE: f64 = 10_000.0;

/// A chart.
pub(super) struct Chart {
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) lines: Vec<Line>,
    /// What it shows, for readers who cannot see it.
    pub(super) summary: String,
    /// Whose values the lines' `published` ones are.
    pub(super) reference: Reference,
}

/// One line of a chart.
#[derive(Default)]
pub(super) struct Line {
    pub(super) name: String,
    /// Index into the palette.
    pub(super) colour: usize,
    /// Ascending in x.
    pub(super) points: Vec<(f64, f64)>,
    /// Whether the points are joined by a line.
    pub(super) joined: bool,
    /// Whether each point gets a dot.
    pub(super) dots: bool,
    /// Whether the area below is tinted.
    pub(super) filled: bool,
    /// Vertical bars: (x, low y, high y).
    pub(super) bars: Vec<(f64, f64, f64)>,
    /// Labelled points: (x, y, label).
    pub(super) marks: Vec<(f64, f64, String)>,
    /// Values that ours stand beside: (x, low y, high y).
    pub(super) published: Vec<(f64, f64, f64)>,
    /// Whether labels stand left of their marks, where there is room.
    pub(super) labels_left: bool,
}

/// Number of colours and of dash patterns in the style sheet.
const COLOURS: usize = 8;

impl Chart {
    pub(super) fn html(&self) -> String {
        let mut out = String::from("<figure class=\"chart\">");
        out += &self.legend();
        // Names that would run into each other stand in two rows.
        let (rows, second) = match self.x.is_crowded() {
            true => (" style=\"grid-template-rows: 17rem 2.7rem\"", ";top:1.6rem"),
            false => ("", ""),
        };
        let title = esc(&self.y.title);
        out += &format!("<div class=\"ytitle\">{title}</div><div class=\"plot\"{rows}><div class=\"yticks\">");
        for (value, label) in &self.y.ticks {
            let bottom = self.y.place(*value) * 100.0;
            out += &format!("<span style=\"bottom:{bottom:.2}%\">{}</span>", esc(label));
        }
        out += "</div><div class=\"area\">";
        out += &self.drawing();
        for line in &self.lines {
            for (x, y, label) in &line.marks {
                // A label needs room on its side, on a narrow screen too.
                let left = line.labels_left && self.x.place(*x) > 0.3 || self.x.place(*x) > 0.75;
                let side = if left { " left" } else { "" };
                out += &format!(
                    "<span class=\"mark c{}{side}\" style=\"left:{:.2}%;bottom:{:.2}%\">{}</span>",
                    line.colour % COLOURS,
                    self.x.place(*x) * 100.0,
                    self.y.place(*y) * 100.0,
                    esc(label)
                );
            }
        }
        out += "</div><div class=\"xticks\">";
        for (index, (value, label)) in self.x.ticks.iter().enumerate() {
            // Every other label gives way on a narrow screen.
            let spare = if self.x.ticks.len() > 5 && index % 2 == 1 { " class=\"spare\"" } else { "" };
            let (left, row) = (self.x.place(*value) * 100.0, if index % 2 == 1 { second } else { "" });
            out += &format!("<span{spare} style=\"left:{left:.2}%{row}\">{}</span>", esc(label));
        }
        out + &format!("</div></div><div class=\"xtitle\">{}</div></figure>\n", esc(&self.x.title))
    }

    fn legend(&self) -> String {
        let published = self.lines.iter().any(|line| !line.published.is_empty());
        if self.lines.iter().all(|line| line.name.is_empty()) && !published {
            return String::new();
        }
        let mut out = String::from("<div class=\"legend\">");
        for (index, line) in self.lines.iter().enumerate().filter(|(_, line)| !line.name.is_empty()) {
            out += &format!(
                "<span class=\"key c{}{}\" data-line=\"{index}\"><i></i>{}</span>",
                line.colour % COLOURS,
                dash(line.colour),
                esc(&line.name)
            );
        }
        if published {
            out += &format!("<span class=\"key pub\"><i></i>{}</span>", self.reference.word());
        }
        out + "</div>"
    }

    fn drawing(&self) -> String {
        let mut out = format!(
            "<svg viewBox=\"0 0 10000 10000\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\" \
             data-x=\"{}\" data-y=\"{}\">",
            esc(&self.summary),
            esc(&scale_text(&self.x)),
            esc(&scale_text(&self.y))
        );
        let mut grid = String::new();
        for (value, _) in &self.y.ticks {
            grid += &format!("M0 {}H10000", self.down(*value));
        }
        if self.x.names.is_empty() {
            for (value, _) in &self.x.ticks {
                grid += &format!("M{} 0V10000", self.across(*value));
            }
        }
        out += &format!("<path class=\"grid\" d=\"{grid}\"/><path class=\"base\" d=\"M0 10000H10000\"/>");
        for (index, line) in self.lines.iter().enumerate() {
            out += &self.line(index, line);
        }
        out + "</svg>"
    }

    fn line(&self, index: usize, line: &Line) -> String {
        let mut out = format!(
            "<g class=\"line c{}{}\" data-line=\"{index}\" data-name=\"{}\">",
            line.colour % COLOURS,
            dash(line.colour),
            esc(&line.name)
        );
        for (class, ranges) in [("published", &line.published), ("bar", &line.bars)] {
            let path: String = ranges
                .iter()
                .map(|(x, low, high)| format!("M{} {}V{}", self.across(*x), self.down(*low), self.down(*high)))
                .collect();
            if !path.is_empty() {
                out += &format!("<path class=\"{class}\" d=\"{path}\"/>");
            }
        }
        // A path of no length with round ends is a dot that never stretches.
        let dot = |(x, y): (f64, f64)| format!("M{} {}h0", self.across(x), self.down(y));
        let published: String =
            line.published.iter().flat_map(|(x, low, high)| [(*x, *low), (*x, *high)]).map(dot).collect();
        if !published.is_empty() {
            out += &format!("<path class=\"ring\" d=\"{published}\"/><path class=\"hole\" d=\"{published}\"/>");
        }
        let mut path = String::new();
        for (x, y) in &line.points {
            path += &format!("{}{} {}", if path.is_empty() { "M" } else { "L" }, self.across(*x), self.down(*y));
        }
        if line.filled
            && let (Some((first, _)), Some((last, _))) = (line.points.first(), line.points.last())
        {
            let (first, last) = (self.across(*first), self.across(*last));
            out += &format!("<path class=\"fill\" d=\"{path}L{last} 10000L{first} 10000Z\"/>");
        }
        // The script reads the points from this path even where it is not drawn.
        let class = if line.joined { "stroke" } else { "stroke apart" };
        out += &format!("<path class=\"{class}\" d=\"{path}\"/>");
        let single = line.points.len() == 1;
        let dots: String = if line.dots || single {
            line.points.iter().copied().map(dot).collect()
        } else {
            line.marks.iter().map(|(x, y, _)| dot((*x, *y))).collect()
        };
        if !dots.is_empty() {
            out += &format!("<path class=\"dot\" d=\"{dots}\"/>");
        }
        out + "</g>"
    }

    fn across(&self, value: f64) -> u32 {
        (self.x.place(value) * SIDE).round() as u32
    }

    fn down(&self, value: f64) -> u32 {
        ((1.0 - self.y.place(value)) * SIDE).round() as u32
    }
}

/// Lines beyond the palette's length are dashed.
fn dash(colour: usize) -> &'static str {
    if colour >= COLOURS { " dashed" } else { "" }
}

/// An axis as the script reads it: spread, ends, unit, names.
fn scale_text(axis: &Axis) -> String {
    let spread = match axis.spread {
        Spread::Linear => "linear",
        Spread::Log => "log",
        Spread::Nines => "nines",
    };
    let mut text = format!("{spread}|{}|{}|{}", axis.low, axis.high, axis.unit.key().replace('|', "/"));
    for name in &axis.names {
        text.push('|');
        text += &name.replace('|', "/");
    }
    text
}
