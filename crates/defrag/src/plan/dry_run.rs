//! A plan as text: exactly what a run would do.

use std::fmt::Write;

use units::{ByteSize, Printable, printable_lines};

use super::planner::Plan;

/// The answer first, in one line; then what is left alone, by reason; then the best `files`, in the order in which they
/// would be moved, and the same number of those left alone for a reason of theirs.
///
/// With [`usize::MAX`], all of them, with a line for each move.
pub fn dry_run_text(plan: &Plan, files: usize) -> String {
    let mut out = String::new();
    let totals = &plan.totals;
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "{} moves in {} of {} files, {} to write, {} requests become {} ({})",
        totals.moves,
        totals.files_to_move,
        totals.files,
        ByteSize(totals.bytes_to_move),
        totals.requests_before,
        totals.requests_after,
        plan.mode
    );
    let estimate = if totals.for_good_is_estimated { " at most (an estimate; root can read the extents)" } else { "" };
    let _ = writeln!(
        out,
        "space, metadata aside: {} more for good{estimate}, {} more at the peak of the run",
        ByteSize(totals.for_good_bytes),
        ByteSize(totals.peak_bytes)
    );
    out.push_str(&instead(plan));
    if !plan.skipped_by_reason.is_empty() {
        let counts = plan.skipped_by_reason.iter().map(|(reason, files)| format!("{files} {reason}"));
        let _ = writeln!(out, "left alone: {}", counts.collect::<Vec<_>>().join(", "));
    }
    let every = files == usize::MAX;
    for file in plan.files.iter().take(files) {
        let _ = writeln!(
            out,
            "{}: {} pieces; {} moves of {}, {} requests become {}",
            Printable::path(&file.file.path),
            file.pieces,
            file.moves.len(),
            ByteSize(file.bytes()),
            file.requests_before,
            file.requests_after
        );
        if file.for_good_bytes > 0 {
            let _ = writeln!(
                out,
                "  {} more are taken up for good, as parts of their extents stay",
                ByteSize(file.for_good_bytes)
            );
        }
        for to_move in file.moves.iter().filter(|_| every) {
            let _ = writeln!(
                out,
                "  bytes {}: {} pieces become 1, {} requests saved",
                to_move.range,
                to_move.pieces,
                to_move.saved()
            );
        }
        for left in &file.left_alone {
            let _ = writeln!(out, "  {} stay: {}", ByteSize(left.bytes), printable_lines(&left.reason.to_string()));
        }
    }
    let skipped = plan.skipped.iter().filter(|skipped| every || !skipped.reason.is_in_order());
    for skipped in skipped.clone().take(files) {
        let why = skipped.reason.to_string();
        let _ = writeln!(out, "{}: left alone, {}", Printable::path(&skipped.path), printable_lines(&why));
    }
    let more = plan.files.len().saturating_sub(files) + skipped.count().saturating_sub(files);
    if more > 0 {
        let _ = writeln!(out, "and {more} more files; --verbose names all of them and every move, --json has them too");
    } else if !every && totals.moves > 0 {
        let _ = writeln!(out, "--verbose names every move, --json has them too");
    }
    out
}

/// What else there is to choose where the plan takes up space for good.
fn instead(plan: &Plan) -> String {
    let tied = plan.files.iter().filter_map(|file| file.whole.map(|whole| (file, whole)));
    let (mut parts, mut whole) = ((0_u64, 0_u64), (0_u64, 0_u64));
    for (file, instead) in tied {
        parts = (parts.0.saturating_add(file.bytes()), parts.1.saturating_add(file.for_good_bytes));
        whole = (whole.0.saturating_add(instead.bytes), whole.1.saturating_add(instead.for_good_bytes));
    }
    if whole.1 >= parts.1 {
        return String::new();
    }
    format!(
        "of these files, {} are written and {} taken up for good; --mode whole would write {} and take up {} for good: choose it \
         where space counts for more than writing (a file's plan is that with the smaller sum)\n",
        ByteSize(parts.0),
        ByteSize(parts.1),
        ByteSize(whole.0),
        ByteSize(whole.1)
    )
}
