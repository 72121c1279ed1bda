//! The zones as a field of coloured cells.

use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use serve::control::{ZoneEntry, ZonePage};

/// Names, colours and ranks of the states; a cell of several zones shows the first
/// of this list among them.
const STATES: [(&str, Color); 7] = [
    ("offline", Color::Red),
    ("read-only", Color::LightRed),
    ("explicitly-opened", Color::LightGreen),
    ("implicitly-opened", Color::Green),
    ("closed", Color::Yellow),
    ("full", Color::Blue),
    ("empty", Color::DarkGray),
];

/// Bars by eighths.
const BARS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

fn rank(state: &str) -> usize {
    STATES.iter().position(|(name, _)| *name == state).unwrap_or(STATES.len() - 1)
}

/// One cell for one zone, or for several where they do not fit otherwise, by their
/// order: `columns` cells on each of at most `rows` lines. The height of a cell's bar
/// is how much of it is written.
pub fn cells(page: &ZonePage, columns: usize, rows: usize) -> Vec<Line<'static>> {
    let room = columns * rows;
    if room == 0 {
        return Vec::new();
    }
    let per_cell = page.zones.len().div_ceil(room).max(1);
    let cells: Vec<Span> = page.zones.chunks(per_cell).map(|zones| cell(zones, page.capacity_blocks)).collect();
    cells.chunks(columns).map(|line| Line::from(line.to_vec())).collect()
}

/// How many zones a cell of such a field stands for.
pub fn zones_per_cell(page: &ZonePage, columns: usize, rows: usize) -> usize {
    page.zones.len().div_ceil((columns * rows).max(1)).max(1)
}

fn cell(zones: &[ZoneEntry], capacity_blocks: u64) -> Span<'static> {
    let first = zones.iter().map(|zone| rank(&zone.state)).min().unwrap_or(STATES.len() - 1);
    let (name, color) = STATES.get(first).copied().unwrap_or(("empty", Color::DarkGray));
    let written: u64 = zones.iter().map(|zone| zone.written_blocks).sum();
    let whole = capacity_blocks.saturating_mul(zones.len() as u64).max(1);
    let sign = match (name, written) {
        ("offline", _) => "x",
        ("read-only", _) => "r",
        (_, 0) => "·",
        _ => BARS[(written.saturating_mul(8).div_ceil(whole).clamp(1, 8) - 1) as usize],
    };
    Span::styled(sign, Style::new().fg(color))
}

/// What the colours mean, for the states that occur and how often.
pub fn legend(page: &ZonePage) -> Line<'static> {
    let mut spans = Vec::new();
    for (name, color) in STATES {
        let count = page.zones.iter().filter(|zone| zone.state == name).count();
        if count > 0 {
            spans.push(Span::styled("■ ", Style::new().fg(color)));
            spans.push(Span::raw(format!("{count} {name}  ")));
        }
    }
    Line::from(spans)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(zones: &[(&str, u64)]) -> ZonePage {
        let zones = zones.iter().zip(0..).map(|((state, written), zone)| ZoneEntry {
            zone,
            state: (*state).to_owned(),
            written_blocks: *written,
        });
        ZonePage { total: 8, zone_blocks: 128, capacity_blocks: 80, zones: zones.collect() }
    }

    fn text(lines: &[Line]) -> Vec<String> {
        lines.iter().map(|line| line.spans.iter().map(|span| span.content.as_ref()).collect()).collect()
    }

    #[test]
    fn one_cell_a_zone_while_they_fit() {
        let page = page(&[("empty", 0), ("implicitly-opened", 1), ("closed", 40), ("full", 80), ("offline", 0)]);
        let lines = cells(&page, 3, 4);
        assert_eq!(text(&lines), ["·▁▄", "█x"]);
        assert_eq!(lines[1].spans[0].style.fg, Some(Color::Blue));
        assert_eq!(zones_per_cell(&page, 3, 4), 1);
    }

    #[test]
    fn several_zones_share_a_cell() {
        let page = page(&[("full", 80), ("closed", 40), ("empty", 0), ("empty", 0), ("full", 80)]);
        let lines = cells(&page, 3, 1);
        // 120 of 160 blocks are six eighths; the closed zone gives the colour.
        assert_eq!(text(&lines), ["▆·█"]);
        assert_eq!(lines[0].spans[0].style.fg, Some(Color::Yellow));
        assert_eq!(zones_per_cell(&page, 3, 1), 2);
        assert!(cells(&page, 0, 5).is_empty());
        assert_eq!(text(&[legend(&page)]), ["■ 1 closed  ■ 2 full  ■ 2 empty  "]);
    }
}
