//! A value over two swept parameters, as cells of a colour: SVG for the cells,
//! page text over it for the words, as in the line charts.

use super::HeatMapData;
use super::html::esc;
use super::number::show;

/// Side of the drawing in its own units.
const SIDE: usize = 10_000;

/// The maps side by side, under one scale of colour; `None` without a cell.
pub(super) fn panels(map: &HeatMapData) -> Option<String> {
    let finite = map.panels.iter().flat_map(|(_, rows)| rows).flatten().flatten().filter(|value| value.is_finite());
    let highest = finite.map(|value| value.abs()).max_by(f64::total_cmp)?;
    let mut out = format!("<h3>{}</h3>\n<div class=\"maps\">", esc(&map.title));
    for (name, rows) in &map.panels {
        out += &panel(map, name, rows, highest);
    }
    out += &format!(
        "</div>\n<p class=\"note\">{} across, {} down; the darker, the larger {}.</p>\n",
        esc(&map.x_label),
        esc(&map.y_label),
        esc(&map.value_label.to_lowercase())
    );
    Some(out)
}

fn panel(map: &HeatMapData, name: &str, rows: &[Vec<Option<f64>>], highest: f64) -> String {
    let (columns, lines) = (map.x_names.len().max(1), map.y_names.len().max(1));
    // The middle of cell `index` of `count`, in per cent.
    let middle = |index: usize, count: usize| (index as f64 + 0.5) / count as f64 * 100.0;
    let mut out = String::from("<figure class=\"map\">");
    if !name.is_empty() {
        out += &format!("<figcaption>{}</figcaption>", esc(name));
    }
    out += &format!("<div class=\"cells\" style=\"--lines:{lines};--columns:{columns}\"><div class=\"ynames\">");
    for (index, name) in map.y_names.iter().enumerate() {
        out += &format!("<span style=\"top:{:.2}%\">{}</span>", middle(index, lines), esc(name));
    }
    out += &format!(
        "</div><div class=\"area\"><svg viewBox=\"0 0 {SIDE} {SIDE}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">",
        esc(&format!("{} by {} and {}", map.value_label, map.x_label, map.y_label))
    );
    let mut words = String::new();
    for (row, cells) in rows.iter().enumerate() {
        for (column, cell) in cells.iter().enumerate() {
            let Some(value) = cell.filter(|value| value.is_finite()) else { continue };
            let (left, right) = (SIDE * column / columns, SIDE * (column + 1) / columns);
            let (top, bottom) = (SIDE * row / lines, SIDE * (row + 1) / lines);
            let heat = if highest > 0.0 { value.abs() / highest } else { 0.0 };
            // A negative value is the victim's gain, and has a colour of its own.
            let class = if value < 0.0 { "cell gain" } else { "cell" };
            out += &format!(
                "<path class=\"{class}\" style=\"--heat:{heat:.3}\" d=\"M{left} {top}H{right}V{bottom}H{left}Z\"/>"
            );
            words += &format!(
                "<span class=\"{}\" style=\"left:{:.2}%;top:{:.2}%\">{}</span>",
                if heat > 0.55 { "over" } else { "mid" },
                middle(column, columns),
                middle(row, lines),
                esc(&show(value, &map.unit))
            );
        }
    }
    out += &format!("</svg>{words}</div><div class=\"xnames\">");
    for (index, name) in map.x_names.iter().enumerate() {
        out += &format!("<span style=\"left:{:.2}%\">{}</span>", middle(index, columns), esc(name));
    }
    out + "</div></div></figure>\n"
}

#[cfg(test)]
mod tests {
    use super::super::Unit;
    use super::*;

    #[test]
    fn odd_cells_are_left_out() {
        let map = |rows: Vec<Vec<Option<f64>>>| HeatMapData {
            x_names: vec!["a".to_owned(), "b".to_owned()],
            y_names: vec!["<c>".to_owned()],
            unit: Unit::Plain,
            panels: vec![(String::new(), rows)],
            ..HeatMapData::default()
        };
        assert_eq!(panels(&map(vec![vec![None, Some(f64::NAN)]])), None);
        let page = panels(&map(vec![vec![Some(0.5), Some(-0.25)]])).unwrap();
        assert_eq!(page.matches("<path").count(), 2);
        assert!(page.contains("cell gain") && page.contains("&lt;c&gt;") && page.contains("--heat:0.500"), "{page}");
        assert_eq!(panels(&map(vec![vec![Some(0.0), None]])).unwrap().matches("<path").count(), 1);
    }
}
