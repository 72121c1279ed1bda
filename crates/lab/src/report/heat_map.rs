//! A value over two swept parameters, as cells of a colour: SVG for the cells,
//! page text over it for the words, as in the line charts.

use super::HeatMapData;
use super::html::esc;
use super::number::show;

/// Side of the drawing in its own units.
const SIDE: usize = 10_000;

/// The maps side by side, under one scale of colour; `None` without a cell.
pub(super) fn panels(map: &HeatMapData) -> Option<String> {
    let cells = map.panels.iter().flat_map(|(_, rows)| rows).flatten().flatten();
    let scale = Scale::of(cells.copied())?;
    let mut out = format!("<h3>{}</h3>\n<div class=\"maps\">", esc(&map.title));
    for (name, rows) in &map.panels {
        out += &panel(map, name, rows, &scale);
    }
    let gains = map.panels.iter().flat_map(|(_, rows)| rows).flatten().flatten().any(|value| *value < 0.0);
    out += "</div>\n";
    out += &scale.html(map, gains);
    out += &format!("<p class=\"note\">{} across, {} down.</p>\n", esc(&map.x_label), esc(&map.y_label));
    Some(out)
}

/// From a value to its shade, 0 to 1: even by logarithm above the median, so
/// that one very large value leaves the others their shades.
struct Scale {
    median: f64,
    highest: f64,
}

impl Scale {
    /// Of the finite ones of `values`; `None` without any.
    fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut sizes: Vec<f64> = values.filter(|value| value.is_finite()).map(f64::abs).collect();
        sizes.sort_by(f64::total_cmp);
        let highest = *sizes.last()?;
        let positive = &sizes[sizes.partition_point(|size| *size <= 0.0)..];
        Some(Self { median: positive.get(positive.len() / 2).copied().unwrap_or(1.0), highest })
    }

    /// The scale beside the maps: shades, and the values they stand for.
    fn html(&self, map: &HeatMapData, gains: bool) -> String {
        let steps = 24;
        let mut out = String::new();
        for (class, sign) in [("shade", ""), ("gain", "−")].into_iter().take(1 + usize::from(gains)) {
            out += &format!(
                "<div class=\"shades\"><span>{}</span><div>",
                esc(&format!("{}{}", if sign.is_empty() { "" } else { "gain: " }, map.value_label))
            );
            for step in 0..steps {
                out += &format!(
                    "<i class=\"{class}\" style=\"--heat:{:.3}\"></i>",
                    (f64::from(step) + 0.5) / f64::from(steps)
                );
            }
            out += "</div><ol>";
            for heat in [0.0, 0.25, 0.5, 0.75, 1.0] {
                let value = show(self.value(heat), &map.unit);
                let sign = if heat > 0.0 { sign } else { "" };
                out += &format!("<li style=\"left:{:.0}%\">{sign}{}</li>", heat * 100.0, esc(&value));
            }
            out += "</ol></div>\n";
        }
        out
    }

    /// The value that has this shade.
    fn value(&self, heat: f64) -> f64 {
        let shade = (self.highest / self.median).ln_1p();
        (heat * shade).exp_m1() * self.median
    }

    fn heat(&self, value: f64) -> f64 {
        let shade = |size: f64| (size / self.median).ln_1p();
        if self.highest > 0.0 { (shade(value.abs()) / shade(self.highest)).min(1.0) } else { 0.0 }
    }
}

fn panel(map: &HeatMapData, name: &str, rows: &[Vec<Option<f64>>], scale: &Scale) -> String {
    let (columns, lines) = (map.x_names.len().max(1), map.y_names.len().max(1));
    // The middle of cell `index` of `count`, in per cent.
    let middle = |index: usize, count: usize| (index as f64 + 0.5) / count as f64 * 100.0;
    let longest = map.y_names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let mut out = format!("<figure class=\"map\" style=\"--names:{longest}\">");
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
            let heat = scale.heat(value);
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
    fn a_large_value_leaves_the_others_their_shades() {
        let scale = Scale::of([0.1, 0.2, 0.4, f64::NAN, 2000.0].into_iter()).unwrap();
        let heats = [0.0, 0.1, 0.2, 0.4, 2000.0].map(|value| scale.heat(value));
        assert_eq!((heats[0], heats[4]), (0.0, 1.0));
        assert!(heats[1] > 0.02 && heats[2] > 1.5 * heats[1] && heats[3] > 1.3 * heats[2], "{heats:?}");
        assert_eq!(Scale::of([0.0].into_iter()).unwrap().heat(0.0), 0.0);
        // The scale beside a map says of each shade which value has it.
        for value in [0.1, 0.4, 2000.0] {
            assert!((scale.value(scale.heat(value)) / value - 1.0).abs() < 1e-9);
        }
    }

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
        assert!(page.contains("cell gain") && page.contains("&lt;c&gt;") && page.contains("--heat:1.000"), "{page}");
        assert_eq!(panels(&map(vec![vec![Some(0.0), None]])).unwrap().matches("<path").count(), 1);
    }
}
