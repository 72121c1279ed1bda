//! Windows out of requests: those that overlap become one.

use std::collections::BTreeMap;

use super::window::{Touch, Window};

/// Sorts by start and sweeps: a request that overlaps the window extends it and counts to it, one that begins at the
/// window's end or later opens the next. So neighbours stay apart, and a window stays about one request long.
pub fn merge(requests: Vec<Touch>) -> Vec<Window> {
    let mut distinct = BTreeMap::new();
    for request in requests {
        let count: &mut u64 = distinct.entry((request.range, request.direction)).or_default();
        *count = count.saturating_add(request.count);
    }
    let mut windows: Vec<Window> = Vec::new();
    for ((range, direction), count) in distinct {
        let touch = Touch { range, direction, count };
        match windows.last_mut() {
            Some(window) if range.start < window.range.end => {
                window.range.end = window.range.end.max(range.end);
                window.count = window.count.saturating_add(count);
                window.touches.push(touch);
            }
            _ => windows.push(Window { range, count, touches: vec![touch] }),
        }
    }
    windows
}
