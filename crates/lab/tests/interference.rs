//! The published worked example of Z, number for number.

#![allow(clippy::unwrap_used)]

use lab::interference::{Point, Victim, Weights, signed, z};

/// Derived from the published measurements; `data/zn540/LICENSE-DATA`.
const EXAMPLE: &str = include_str!("data/zn540/z_inter_worked_example.csv");

#[test]
fn worked_example() {
    let mut lines = EXAMPLE.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    let number = |row: &[&str], name: &str| -> f64 {
        row[header.iter().position(|column| *column == name).unwrap()].parse().unwrap()
    };
    let victim = |row: &[&str], rate: &str| Victim {
        iops: number(row, &format!("iops_mean_rate{rate}")),
        p95_ns: Some(number(row, &format!("lat_p95_rate{rate}_us")) * 1e3),
        ..Victim::default()
    };
    let points: Vec<Point> = rows
        .iter()
        .map(|row| Point {
            load: row[2].to_owned(),
            without: victim(row, "0"),
            with: victim(row, "50"),
            operations_per_s: None,
        })
        .collect();
    assert_eq!(points.len(), 7);
    let found = z(&points, Weights::EVEN).unwrap();
    assert!((found.mean - 0.240_507_004).abs() < 1e-6, "{}", found.mean);
    let mut signed_sum = 0.0;
    for (row, term) in rows.iter().zip(&found.terms) {
        assert!((term - number(row, "term")).abs() < 1e-6, "load {}: {term}", row[2]);
        signed_sum += -0.5 * number(row, "rel_delta_iops") + 0.5 * number(row, "rel_delta_lat_p95");
    }
    let found = signed(&points, Weights::EVEN).unwrap();
    assert!((found.mean - signed_sum / 7.0).abs() < 1e-6, "{}", found.mean);
}
