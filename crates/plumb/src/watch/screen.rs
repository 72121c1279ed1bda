//! The layout and its parts.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::symbols::bar::NINE_LEVELS;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Gauge, Paragraph, Sparkline};

use super::sample::{View, bytes, prefixed};
use super::zone_map::{cells, legend, zones_per_cell};
use crate::commands::control::{share, time};

/// Draws everything.
pub fn draw(frame: &mut Frame, view: &View) {
    // Zones take what room there is, or else the curve does.
    let (upper, lower) = match view.zones {
        Some(_) => (Constraint::Length(7), Constraint::Min(0)),
        None => (Constraint::Min(7), Constraint::Length(0)),
    };
    let [head, top, middle, rest, foot] =
        Layout::vertical([Constraint::Length(1), upper, Constraint::Length(5), lower, Constraint::Length(1)])
            .areas(frame.area());
    header(frame, head, view);
    let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Length(34)]).areas(top);
    rates(frame, left, view);
    latency(frame, right, view);
    let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).areas(middle);
    cache(frame, left, view);
    collection(frame, right, view);
    zones(frame, rest, view);
    frame.render_widget(Line::from(" q quits").dim(), foot);
}

fn header(frame: &mut Frame, area: Rect, view: &View) {
    let status = view.status();
    let power = if status.powered {
        Span::styled("power on", Style::new().fg(Color::Green))
    } else {
        Span::styled("POWER OFF", Style::new().fg(Color::Red)).bold()
    };
    let mut spans = vec![
        Span::raw(format!(" {}  ", status.model)).bold(),
        power,
        Span::raw(format!("  {} clients  {:.1} s", status.clients.connected, status.elapsed_ns as f64 / 1e9)),
    ];
    if status.faults > 0 {
        let text = format!("  {} faults, {} hits", status.faults, status.fault_hits);
        spans.push(Span::styled(text, Style::new().fg(Color::Yellow)));
    }
    frame.render_widget(Line::from(spans), area);
}

fn rates(frame: &mut Frame, area: Rect, view: &View) {
    let block = Block::bordered();
    let inner = block.inner(area);
    let [text, curve] = Layout::vertical([Constraint::Length(3), Constraint::Fill(1)]).areas(inner);
    let rates = view.rates;
    let lines = vec![
        Line::from(format!("reads   {:>8}   {:>9}/s", prefixed(rates.read_iops), bytes(rates.read_bytes_per_s))),
        Line::from(format!("writes  {:>8}   {:>9}/s", prefixed(rates.write_iops), bytes(rates.write_bytes_per_s))),
        Line::from(format!("errors  {:>8}   {} outstanding", prefixed(rates.errors_per_s), view.status().outstanding)),
    ];
    frame.render_widget(Paragraph::new(lines), text);
    let [scale, curve] = Layout::horizontal([Constraint::Length(SCALE), Constraint::Fill(1)]).areas(curve);
    // The newest at the right, however wide the screen is.
    let shown: Vec<(u64, u64)> = view.history.iter().rev().take(usize::from(curve.width)).rev().copied().collect();
    let highest = shown.iter().map(|(_, iops)| *iops).max().unwrap_or(0).max(1);
    let since = shown.first().map_or(0, |(at, _)| view.status().elapsed_ns.saturating_sub(*at));
    let title = match shown.len() {
        0 | 1 => " Requests a second ".to_owned(),
        _ => format!(" Requests a second; the last {:.0} s ", since as f64 / 1e9),
    };
    frame.render_widget(block.title(title), area);
    let curve_widget = Sparkline::default()
        .data(shown.iter().map(|(_, iops)| *iops))
        .max(highest)
        .bar_set(NINE_LEVELS)
        .style(Style::new().fg(Color::Cyan));
    frame.render_widget(curve_widget, curve);
    // What the highest bar stands for, and the lowest.
    let mut marks = vec![Line::default(); usize::from(scale.height)];
    if let Some(last) = marks.last_mut() {
        *last = Line::from(format!("{:>7} ", "0")).dim();
    }
    if let Some(first) = marks.first_mut().filter(|_| shown.iter().any(|(_, iops)| *iops > 0)) {
        *first = Line::from(format!("{:>7} ", prefixed(highest as f64).trim_end())).dim();
    }
    frame.render_widget(Paragraph::new(marks), scale);
}

/// Columns beside the curve for its scale.
const SCALE: u16 = 8;

fn latency(frame: &mut Frame, area: Rect, view: &View) {
    let status = view.status();
    let recent = status.recent.served_ns;
    let all = status.latency.modelled_ns;
    let row = |name: &str, now: i64, model: i64| Line::from(format!("{name:<6}{:>11} {:>13}", time(now), time(model)));
    let lines = vec![
        Line::from(format!("{:<6}{:>11} {:>13}", "", "last second", "model, all")).dim(),
        row("p50", recent.p50, all.p50),
        row("p99", recent.p99, all.p99),
        row("p99.9", recent.p999, all.p999),
        Line::from(format!("{:<6}{:>11} {:>13}", "count", status.recent.requests, status.latency.requests)).dim(),
    ];
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" Latency ")), area);
}

fn cache(frame: &mut Frame, area: Rect, view: &View) {
    let block = Block::bordered().title(" Write cache ");
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let Some(cache) = view.status().live.write_cache else {
        return frame.render_widget(Line::from("none").dim(), inner);
    };
    let [gauge, text] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(inner);
    let percent = share(cache.dirty_bytes, cache.capacity_bytes).clamp(0.0, 100.0);
    let color = if cache.power_loss_protected { Color::Green } else { Color::Magenta };
    let bar =
        Gauge::default().ratio(percent / 100.0).label(format!("{percent:.0}%")).gauge_style(Style::new().fg(color));
    frame.render_widget(bar, gauge);
    let what = if cache.power_loss_protected { "a power cut keeps it" } else { "a power cut takes it" };
    let (dirty, capacity) = (bytes(cache.dirty_bytes as f64), bytes(cache.capacity_bytes as f64));
    frame.render_widget(
        Paragraph::new(vec![Line::from(format!("{dirty} of {capacity} dirty")), Line::from(what).dim()]),
        text,
    );
}

fn collection(frame: &mut Frame, area: Rect, view: &View) {
    let block = Block::bordered().title(" Garbage collection ");
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let Some(gc) = view.status().live.garbage_collection else {
        return frame.render_widget(Line::from("none").dim(), inner);
    };
    let state = if gc.collecting_dies == 0 {
        Line::from("not running").dim()
    } else {
        let text = format!("running on {} of {} dies", gc.collecting_dies, gc.total_dies);
        Line::styled(text, Style::new().fg(Color::Yellow))
    };
    let free = share(gc.free_blocks, gc.total_blocks);
    let lines = vec![
        state,
        Line::from(format!("{} of {} blocks free ({free:.1}%)", gc.free_blocks, gc.total_blocks)),
        Line::from(format!("{} moved, {}/s", bytes(gc.moved_bytes as f64), bytes(view.rates.moved_bytes_per_s))),
    ];
    frame.render_widget(Paragraph::new(lines), inner);
}

fn zones(frame: &mut Frame, area: Rect, view: &View) {
    let Some(page) = &view.zones else { return };
    let block = Block::bordered();
    let inner = block.inner(area);
    let [map, key] = Layout::vertical([Constraint::Fill(1), Constraint::Length(1)]).areas(inner);
    let (columns, rows) = (usize::from(map.width), usize::from(map.height));
    let limit = |limit: Option<u32>| limit.map_or("any".to_owned(), |limit| limit.to_string());
    let mut title = format!(" Zones: {}, {} a cell", page.total, zones_per_cell(page, columns, rows));
    if let Some(summary) = view.status().live.zones.first() {
        let (open, active) = (summary.open(), summary.active());
        let (max_open, max_active) = (limit(summary.max_open), limit(summary.max_active));
        title.push_str(&format!("; {open} of {max_open} open, {active} of {max_active} active "));
    }
    frame.render_widget(block.title(title), area);
    frame.render_widget(Paragraph::new(cells(page, columns, rows)), map);
    frame.render_widget(legend(page), key);
}

#[cfg(test)]
pub(super) mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use serve::control::{NamespaceStatus, Status, ZoneEntry, ZonePage};
    use ssd::{GarbageCollectionState, LiveState, WriteCacheState, ZoneSummary};

    use super::*;

    pub fn status() -> Status {
        let percentiles = |p50, p99, p999| serve::latency::Percentiles { p50, p99, p999 };
        Status {
            model: "Example SSD".to_owned(),
            elapsed_ns: 12_300_000_000,
            powered: true,
            namespaces: vec![NamespaceStatus { nsid: 1, bytes: 1 << 30, lba_bytes: 4096, zones: 0 }],
            clients: serve::Clients { accepted: 3, connected: 2, dropped: 1 },
            requests: 5_000,
            reads: 4_000,
            writes: 900,
            read_bytes: 4_000 << 12,
            written_bytes: 900 << 12,
            errors: 2,
            outstanding: 32,
            queues: Vec::new(),
            latency: serve::latency::LatencySummary {
                requests: 4_968,
                modelled_ns: percentiles(62_000, 91_000, 1_020_000),
                error_ns: percentiles(1_000, 2_000, 9_000),
            },
            recent: serve::latency::RecentLatency { requests: 412, served_ns: percentiles(63_000, 95_500, 1_100_000) },
            live: LiveState {
                outstanding_commands: 32,
                write_cache: Some(WriteCacheState {
                    dirty_bytes: 3 << 20,
                    capacity_bytes: 8 << 20,
                    power_loss_protected: false,
                }),
                garbage_collection: Some(GarbageCollectionState {
                    free_blocks: 120,
                    total_blocks: 2048,
                    collecting_dies: 3,
                    total_dies: 16,
                    moved_bytes: 77 << 20,
                }),
                zones: Vec::new(),
            },
            faults: 0,
            memory_bytes: 0,
            memory_limit_bytes: None,
            fault_hits: 0,
            counters: Default::default(),
        }
    }

    fn render(view: &View) -> String {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| draw(frame, view)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn conventional() {
        let mut view = View::new(status());
        for step in 1..=60_u64 {
            let mut later = view.status().clone();
            later.elapsed_ns += 1_000_000_000;
            later.reads += step * 300;
            later.read_bytes += step * 300 * 4096;
            later.writes += 20_000;
            later.written_bytes += 20_000 * 4096;
            view.update(later);
        }
        insta::assert_snapshot!(render(&view));
    }

    #[test]
    fn zoned_without_power() {
        let mut state = status();
        state.powered = false;
        (state.faults, state.fault_hits) = (2, 17);
        state.live.garbage_collection = None;
        state.live.zones = vec![ZoneSummary {
            nsid: 1,
            zones: 200,
            explicitly_opened: 3,
            closed: 2,
            max_open: Some(14),
            ..ZoneSummary::default()
        }];
        let states = ["full", "full", "full", "closed", "implicitly-opened", "empty", "empty", "offline", "read-only"];
        let zone = |zone: u32| ZoneEntry {
            zone,
            state: states[zone as usize % states.len()].to_owned(),
            written_blocks: u64::from(zone * 7 % 100),
        };
        let mut view = View::new(state);
        view.zones =
            Some(ZonePage { total: 200, zone_blocks: 128, capacity_blocks: 100, zones: (0..200).map(zone).collect() });
        insta::assert_snapshot!(render(&view));
    }

    /// However small the terminal, nothing breaks.
    #[test]
    fn any_size() {
        let mut view = View::new(status());
        view.zones = Some(ZonePage { total: 0, zone_blocks: 1, capacity_blocks: 0, zones: Vec::new() });
        for (width, height) in [(1, 1), (5, 3), (20, 40), (200, 8), (33, 13), (300, 90)] {
            let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
            terminal.draw(|frame| draw(frame, &view)).unwrap();
        }
    }
}
