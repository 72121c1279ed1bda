//! A plan as text: exactly what a run would do.

use std::fmt::Write;

use super::planner::Plan;

/// One line for each move, grouped by file, in the order in which they would be carried out.
pub fn dry_run_text(plan: &Plan) -> String {
    let mut out = String::new();
    for file in &plan.files {
        // Writing to a string does not fail.
        let _ = writeln!(
            out,
            "{}: {} pieces; move {} bytes, {} requests become {}",
            file.file.path.display(),
            file.pieces,
            file.bytes(),
            file.requests_before,
            file.requests_after
        );
        for to_move in &file.moves {
            let _ = writeln!(
                out,
                "  bytes {}: {} pieces become 1, {} requests saved",
                to_move.range,
                to_move.pieces,
                to_move.saved()
            );
        }
        for left in &file.left_alone {
            let _ = writeln!(out, "  {} bytes stay: {}", left.bytes, left.reason);
        }
    }
    for skipped in &plan.skipped {
        let _ = writeln!(out, "{}: left alone, {}", skipped.path.display(), skipped.reason);
    }
    let totals = &plan.totals;
    let _ = writeln!(
        out,
        "{} moves in {} of {} files, {} bytes to write, {} requests become {} ({})",
        totals.moves,
        totals.files_to_move,
        totals.files,
        totals.bytes_to_move,
        totals.requests_before,
        totals.requests_after,
        plan.mode
    );
    out
}
