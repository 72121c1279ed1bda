//! The numbers behind the page, carried inside it as files to save.

use super::html::esc;
use super::latency::at_percent;
use super::overview::coloured;
use super::{Estimate, PointData, ReportData};
use crate::results::{Swept, csv_field};

/// Links to the page's data.
pub(super) fn links(data: &ReportData) -> String {
    let mut out = String::from("<p class=\"downloads\">");
    let mut link = |name: &str, mime: &str, label: &str, bytes: &[u8]| {
        out += &format!(
            "<a class=\"button\" download=\"{}\" href=\"data:{mime};base64,{}\">{label}</a> ",
            esc(name),
            base64(bytes)
        );
    };
    link("summary.csv", "text/csv", "Summary (CSV)", summary(&data.points).as_bytes());
    if data.points.iter().flat_map(|point| &point.directions).any(|direction| !direction.latency_cdf.is_empty()) {
        link("latency.csv", "text/csv", "Latency distributions (CSV)", distributions(&data.points).as_bytes());
    }
    // Plain structs with text keys: there is nothing in them that JSON cannot hold.
    let json = serde_json::to_vec(&with_numbers(data)).unwrap_or_default();
    link("report.json", "application/json", "Everything shown (JSON)", &json);
    out + "</p>\n"
}

/// The data as JSON, swept numbers as numbers.
fn with_numbers(data: &ReportData) -> serde_json::Value {
    let swept = Swept::of(data.points.iter().map(|point| point.parameters.as_slice()));
    let mut json = serde_json::to_value(data).unwrap_or_default();
    for point in json["points"].as_array_mut().into_iter().flatten() {
        for (swept, pair) in swept.iter().zip(point["parameters"].as_array_mut().into_iter().flatten()) {
            pair[1] = pair[1].as_str().map_or_else(Default::default, |value| swept.json(value));
        }
    }
    json
}

fn summary(points: &[PointData]) -> String {
    let mut percents: Vec<f64> = points
        .iter()
        .flat_map(|point| &point.directions)
        .flat_map(|direction| &direction.latency_percentiles_ns)
        .map(|(percent, _)| *percent)
        .collect();
    percents.sort_by(f64::total_cmp);
    percents.dedup();
    let keys = points.first().map_or(&[][..], |point| &point.parameters);
    let mut header: Vec<String> = vec!["point".to_owned()];
    header.extend(keys.iter().map(|(key, _)| key.clone()));
    header.extend(["direction", "repeats", "duration_ns", "requests"].map(str::to_owned));
    let names = ["iops", "bytes_per_s", "mean_ns"].map(str::to_owned).into_iter();
    for name in names.chain(percents.iter().map(|percent| format!("p{percent}_ns"))) {
        header.push(name.clone());
        header.push(format!("{name}_half_width"));
    }
    let mut out = line(&header);
    for (index, point) in points.iter().enumerate() {
        for (_, direction) in coloured(&point.directions) {
            let mut row = vec![index.to_string()];
            row.extend(
                (0..keys.len()).map(|at| point.parameters.get(at).map_or(String::new(), |(_, value)| value.clone())),
            );
            row.extend([
                direction.name.clone(),
                point.repeats.to_string(),
                number(point.duration_ns),
                number(direction.requests),
            ]);
            let estimates = [direction.iops, direction.bandwidth, direction.latency_mean_ns].map(Some).into_iter();
            for estimate in estimates.chain(percents.iter().map(|percent| at_percent(direction, *percent))) {
                let Estimate { value, half_width } = estimate.unwrap_or(Estimate { value: f64::NAN, half_width: None });
                row.push(number(value));
                row.push(half_width.map_or(String::new(), number));
            }
            out += &line(&row);
        }
    }
    out
}

fn distributions(points: &[PointData]) -> String {
    let mut out = line(&["point", "direction", "latency_ns", "fraction"].map(str::to_owned));
    for (index, point) in points.iter().enumerate() {
        for direction in &point.directions {
            for (ns, fraction) in &direction.latency_cdf {
                out += &line(&[index.to_string(), direction.name.clone(), number(*ns), number(*fraction)]);
            }
        }
    }
    out
}

/// A CSV record (RFC 4180).
fn line(fields: &[String]) -> String {
    fields.iter().map(|field| csv_field(field)).collect::<Vec<_>>().join(",") + "\r\n"
}

fn number(value: f64) -> String {
    if value.is_finite() { value.to_string() } else { String::new() }
}

/// RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let word = group.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for position in 0..4 {
            if position <= group.len() {
                out.push(char::from(ALPHABET[(word >> (18 - 6 * position)) as usize & 63]));
            } else {
                out.push('=');
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_the_rfc() {
        for (plain, coded) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }

    #[test]
    fn csv_quotes() {
        assert_eq!(line(&["a,b".to_owned(), "c\"d".to_owned(), "e".to_owned()]), "\"a,b\",\"c\"\"d\",e\r\n");
    }
}
