//! Saving what a damaged store still has.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use indicatif::ProgressBar;
use serde_json::json;
use storage::Storage;

use super::super::{Done, EXIT_FAILED};
use super::store::{self, StoreFlags};
use crate::failure::Failure;

#[derive(Args)]
#[command(after_help = "Examples:
  plumb kv repair fruit.kv --into saved.kv
  plumb kv repair fruit.kv --into saved.kv --json | jq '.lost[].start'

Exit status: 0 nothing was lost; 1 something was, or the store cannot be read at all; 2 bad usage or input.")]
pub struct RepairArguments {
    #[command(flatten)]
    store: StoreFlags,
    /// The new store: a file that is made, as large as the damaged store
    #[arg(long, value_name = "FILE")]
    into: PathBuf,
    /// Print what was lost as an object
    #[arg(long)]
    json: bool,
}

fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

/// Puts all that can be read into a new store. The damaged one stays as it is.
pub fn repair(arguments: &RepairArguments) -> Done {
    let (path, into) = (&arguments.store.store, &arguments.into);
    let from: Arc<dyn Storage> = Arc::new(store::file(path, None)?);
    if into.exists() {
        return Err(Failure::input(format!("{}: there is something already; name a new file", into.display())));
    }
    let to = store::file(into, Some(from.capacity_bytes()))?;
    let bar = ProgressBar::new_spinner().with_message("entries saved");
    bar.enable_steady_tick(Duration::from_millis(200));
    let repaired =
        betree::repair(from, to, arguments.store.options(), store::new_id(), |entries| bar.set_position(entries));
    bar.finish_and_clear();
    let repaired = repaired.map_err(|error| arguments.store.fault(&error))?;
    let whole = repaired.lost.is_empty() && repaired.log.is_none() && repaired.snapshots.is_empty();
    if arguments.json {
        let lost = |lost: &betree::Lost| json!({ "tree": lost.tree, "start": text(&lost.start), "end": lost.end.as_deref().map(text), "why": lost.why });
        println!(
            "{}",
            json!({
                "store": path.display().to_string(),
                "into": into.display().to_string(),
                "trees": repaired.trees,
                "entries": repaired.entries,
                "lost": repaired.lost.iter().map(lost).collect::<Vec<_>>(),
                "log": repaired.log,
                "snapshots_not_saved": repaired.snapshots,
            })
        );
    } else {
        println!(
            "{}: {} entries of {} trees are in {}",
            path.display(),
            repaired.entries,
            repaired.trees,
            into.display()
        );
        for lost in &repaired.lost {
            let end = lost.end.as_deref().map_or("the last key".to_owned(), |end| format!("before {:?}", text(end)));
            println!("tree {}: lost from {:?} to {end}: {}", lost.tree, text(&lost.start), lost.why);
        }
        repaired.log.iter().for_each(|why| println!("the newest batches are lost: {why}"));
        repaired.snapshots.iter().for_each(|name| println!("snapshot {name}: not saved"));
    }
    Ok(if whole { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FAILED) })
}
