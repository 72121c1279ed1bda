//! Entries of a range, one a line.

use std::process::ExitCode;

use betree::Entry;
use clap::Args;

use super::super::Done;
use super::one::RangeFlags;
use super::store::{self, StoreFlags};
use super::text;

#[derive(Args)]
#[command(
    after_help = "Each line is a key, a tab and a value; what is no printable ASCII character is escaped (\\xNN, \\t,
\\n, \\\\), so that `plumb kv load` reads it again. With --json each line is an object with `key` and `value`, or
`key_hex` and `value_hex` where they are not UTF-8."
)]
pub struct ScanArguments {
    #[command(flatten)]
    store: StoreFlags,
    #[command(flatten)]
    range: RangeFlags,
    /// So many entries at most
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    limit: u64,
    /// From the greatest key down
    #[arg(long)]
    reverse: bool,
    /// Print keys alone
    #[arg(long)]
    keys: bool,
    /// Print objects
    #[arg(long)]
    json: bool,
    /// Open a store whose log is damaged: batches from the damaged place on are lost, for good
    #[arg(long)]
    accept_log_damage: bool,
}

/// Prints them.
pub fn scan(arguments: &ScanArguments) -> Done {
    let range = arguments.range.bounds()?;
    let options = betree::Options { accept_log_damage: arguments.accept_log_damage, ..arguments.store.options() };
    let file = store::file(&arguments.store.store, None)?;
    // Accepting damage is a change; reading is none.
    let opened = match arguments.accept_log_damage {
        true => betree::Database::open(file, options),
        false => betree::Database::open_read_only(file, options),
    };
    let database = opened.map_err(|error| arguments.store.fault(&error))?;
    let tree = arguments.store.tree_to_read(&database)?;
    let entries = tree.range::<Vec<u8>>(range);
    let entries: Box<dyn Iterator<Item = betree::Result<Entry>>> =
        if arguments.reverse { Box::new(entries.rev()) } else { Box::new(entries) };
    let limit = usize::try_from(arguments.limit).unwrap_or(usize::MAX);
    for entry in entries.take(limit) {
        let (key, value) = entry.map_err(|error| arguments.store.fault(&error))?;
        match (arguments.json, arguments.keys) {
            (true, true) => println!("{}", text::json_key(&key)),
            (true, false) => println!("{}", text::json_line(&key, Some(&value))),
            (false, true) => println!("{}", key.escape_ascii()),
            (false, false) => println!("{}", text::line(&key, &value)),
        }
    }
    Ok(ExitCode::SUCCESS)
}
