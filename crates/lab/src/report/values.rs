//! What a picture over named values shows, in numbers.

use super::html::esc;
use super::number::{NONE, show_stacked};
use super::{SweepLine, SweepPlot};

/// A row for each named value, a column for each line; nothing for a picture over numbers.
pub(super) fn table(plot: &SweepPlot, lines: &[SweepLine]) -> String {
    if plot.x_names.is_empty() || lines.is_empty() {
        return String::new();
    }
    let mut out =
        format!("<div class=\"scroll\"><table class=\"overview effects\"><thead><tr><th>{}</th>", esc(&plot.x_label));
    let heading = |line: &SweepLine| if line.name.is_empty() { plot.y_label.clone() } else { line.name.clone() };
    for line in lines {
        out += &format!("<th class=\"n\">{}</th>", esc(&heading(line)));
    }
    out += "</tr></thead><tbody>";
    for (number, name) in plot.x_names.iter().enumerate() {
        let (label, name) = (esc(&plot.x_label), esc(name));
        out += &format!("<tr class=\"first\"><td class=\"key-value\" data-label=\"{label}\">{name}</td>");
        for line in lines {
            let found = line.points.iter().find(|(x, _)| *x == number as f64);
            let text = found.map_or(NONE.to_owned(), |(_, value)| show_stacked(*value, &plot.y_unit));
            out += &format!("<td class=\"n\" data-label=\"{}\">{text}</td>", esc(&heading(line)));
        }
        out += "</tr>\n";
    }
    out + "</tbody></table></div>\n"
}
