//! What a store is like: whether it is sound, what is where, and how full it is.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use indicatif::ProgressBar;
use serde_json::json;
use units::ByteSize;

use super::super::{Done, EXIT_FAILED};
use super::store::{self, StoreFlags};
use crate::terminal::print_table;

#[derive(Args)]
pub struct VerifyArguments {
    #[command(flatten)]
    store: StoreFlags,
    /// Print what was found as an object
    #[arg(long)]
    json: bool,
}

/// Checks a store without opening it, so without recovery.
pub fn verify(arguments: &VerifyArguments) -> Done {
    let path = &arguments.store.store;
    let file = store::file(path, None)?;
    let bar = ProgressBar::new_spinner().with_message("reading every block");
    bar.enable_steady_tick(Duration::from_millis(200));
    let verified = betree::verify(file);
    bar.finish_and_clear();
    let findings = verified.map_err(|error| arguments.store.fault(&error))?;
    if arguments.json {
        println!(
            "{}",
            json!({ "store": path.display().to_string(), "sound": findings.is_empty(), "findings": findings })
        );
    } else if findings.is_empty() {
        println!("{}: sound", path.display());
    } else {
        findings.iter().for_each(|finding| println!("{finding}"));
    }
    if findings.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!(
        "{}: {} findings. What can be read is put into a new store by: plumb kv repair {0} --into NEW",
        path.display(),
        findings.len()
    );
    Ok(ExitCode::from(EXIT_FAILED))
}

#[derive(Args)]
pub struct DumpArguments {
    #[command(flatten)]
    store: StoreFlags,
    /// Also every entry of every block
    #[arg(long)]
    entries: bool,
}

/// Describes a store line by line.
pub fn dump(arguments: &DumpArguments) -> Done {
    let file = store::file(&arguments.store.store, None)?;
    let dumped = betree::dump(file, arguments.entries, |line| println!("{line}"));
    dumped.map_err(|error| arguments.store.fault(&error))?;
    Ok(ExitCode::SUCCESS)
}

#[derive(Args)]
pub struct StatsArguments {
    #[command(flatten)]
    store: StoreFlags,
    /// Also count the entries of each tree, which reads them all
    #[arg(long)]
    count: bool,
    /// Print an object
    #[arg(long)]
    json: bool,
}

/// Opens a store and says what it holds.
pub fn stats(arguments: &StatsArguments) -> Done {
    let database = arguments.store.open_to_read()?;
    let fault = |error| arguments.store.fault(&error);
    let stats = database.stats();
    let mut trees = Vec::new();
    for name in database.tree_names() {
        let tree = database.open_tree(&name).map_err(fault)?;
        let mut entries = None;
        if arguments.count {
            let bar = ProgressBar::no_length().with_message(name.clone());
            let mut count = 0u64;
            for entry in tree.iter() {
                entry.map_err(fault)?;
                count += 1;
                bar.inc(1);
            }
            bar.finish_and_clear();
            entries = Some(count);
        }
        trees.push((name, entries));
    }
    let snapshots = database.snapshot_names();
    let used_bytes = stats.capacity_bytes - stats.free_bytes - stats.waiting_bytes;
    if arguments.json {
        let trees: Vec<_> = trees.iter().map(|(name, entries)| json!({ "name": name, "entries": entries })).collect();
        println!(
            "{}",
            json!({
                "capacity_bytes": stats.capacity_bytes,
                "used_bytes": used_bytes,
                "free_bytes": stats.free_bytes,
                "waiting_bytes": stats.waiting_bytes,
                "memory_bytes": stats.memory_bytes,
                "trees": trees,
                "snapshots": snapshots,
            })
        );
        return Ok(ExitCode::SUCCESS);
    }
    let size = |bytes: u64| ByteSize(bytes).to_string();
    let mut rows = vec![
        vec!["size".to_owned(), size(stats.capacity_bytes)],
        vec!["used, log included".to_owned(), size(used_bytes)],
        vec!["free".to_owned(), size(stats.free_bytes)],
        vec!["free after a checkpoint".to_owned(), size(stats.waiting_bytes)],
        vec!["changes in the log alone".to_owned(), size(stats.memory_bytes)],
    ];
    for (name, entries) in trees {
        let entries = entries.map_or(String::new(), |entries| format!("{entries} entries"));
        rows.push(vec![format!("tree {name}"), entries]);
    }
    rows.extend(snapshots.into_iter().map(|name| vec![format!("snapshot {name}"), String::new()]));
    print_table(&["what", "how much"], &rows);
    Ok(ExitCode::SUCCESS)
}
