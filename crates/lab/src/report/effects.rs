//! What one stream of commands costs another, and values made of others.

use super::html::esc;
use super::number::{NONE, show_stacked};
use super::{EffectTable, Estimate, Unit};

/// One row for each combination of the swept parameters left.
pub(super) fn table(table: &EffectTable) -> String {
    let keys = table.rows.first().map_or(&[][..], |(parameters, _)| parameters);
    let mut out = String::from("<div class=\"scroll\"><table class=\"overview effects\"><thead><tr>");
    for (key, _) in keys {
        out += &format!("<th>{}</th>", esc(key));
    }
    for (name, _) in &table.columns {
        out += &format!("<th class=\"n\">{}</th>", esc(name));
    }
    out += "</tr></thead><tbody>";
    for (parameters, cells) in &table.rows {
        out += "<tr class=\"first\">";
        for (key, value) in parameters {
            out += &format!("<td class=\"key-value\" data-label=\"{}\">{}</td>", esc(key), esc(value));
        }
        for ((name, unit), cell) in table.columns.iter().zip(cells) {
            out += &format!("<td class=\"n\" data-label=\"{}\">{}</td>", esc(name), shown(*cell, unit));
        }
        out += "</tr>\n";
    }
    out + "</tbody></table></div>\n"
}

/// What the columns of a table of interference mean.
pub(super) const MEASURES: &str = "<p class=\"note\">Z is the mean over the load points of the root mean square of the \
    relative changes of rate and p95 latency, and has no sign. Signed is above zero where the victim lost. Tail takes \
    p99.9 in place of p95. The cost of one operation is the time for which the victim might as well have stood still, once \
    for each operation: it does not shrink when fewer are done.</p>\n";

/// Values made of others; `None` without any.
pub(super) fn derived(rows: &[(String, Unit, Option<Estimate>)]) -> Option<String> {
    if rows.is_empty() {
        return None;
    }
    let mut out = String::from("<h3>Derived values</h3>\n<table><tbody>");
    for (name, unit, value) in rows {
        out += &format!("<tr><th scope=\"row\">{}</th><td class=\"n\">{}</td></tr>", esc(name), shown(*value, unit));
    }
    Some(out + "</tbody></table>\n")
}

fn shown(value: Option<Estimate>, unit: &Unit) -> String {
    value.map_or(NONE.to_owned(), |value| show_stacked(value, unit))
}
