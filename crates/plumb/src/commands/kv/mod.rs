//! `plumb kv`: a Bε-tree store on a file or a block device.

mod bench;
mod grow;
mod load;
mod one;
mod repair;
mod scan;
mod state;
mod store;
mod text;

use clap::{Args, Subcommand};

use super::Done;

/// What to do with a store.
#[derive(Args)]
#[command(after_help = "Examples:
  plumb kv create fruit.kv --size 1GiB
  plumb kv put fruit.kv apple green
  plumb kv get fruit.kv apple
  plumb kv load fruit.kv fruit.tsv            # a line an entry: key, tab, value
  plumb kv scan fruit.kv --prefix a --limit 10
  plumb kv scan fruit.kv --json | jq .key
  plumb kv delete fruit.kv --from b --to d
  plumb kv verify fruit.kv
  plumb kv repair fruit.kv --into saved.kv    # all that can be read of a damaged store
  plumb kv stats fruit.kv --json
  plumb kv bench try.kv --entries 1000000

Exit status: 0 done; 1 the key has no value, the store is damaged, full or in use; 2 bad usage or input.")]
pub struct KvArguments {
    #[command(subcommand)]
    command: KvCommand,
}

#[derive(Subcommand)]
enum KvCommand {
    /// Make a store: a file, or on a block device
    Create(one::CreateArguments),
    /// Give a key a value
    Put(one::PutArguments),
    /// Print the value of a key
    Get(one::GetArguments),
    /// Take away a key, or all keys of a range
    Delete(one::DeleteArguments),
    /// Print the entries of a range, in key order
    Scan(scan::ScanArguments),
    /// Put in many entries from a file
    Load(load::LoadArguments),
    /// Read everything and check every rule of the format; changes nothing
    Verify(state::VerifyArguments),
    /// Put all that can be read of a damaged store into a new one, and say what is lost
    Repair(repair::RepairArguments),
    /// Describe every node, run and block; changes nothing
    Dump(state::DumpArguments),
    /// Take a larger file or device into use
    Grow(grow::GrowArguments),
    /// Say what is in the store and how much room it has
    Stats(state::StatsArguments),
    /// Measure inserts, lookups and scans on a store that is made for it
    Bench(bench::BenchArguments),
}

/// Does it.
pub fn kv(arguments: &KvArguments) -> Done {
    match &arguments.command {
        KvCommand::Create(arguments) => one::create(arguments),
        KvCommand::Put(arguments) => one::put(arguments),
        KvCommand::Get(arguments) => one::get(arguments),
        KvCommand::Delete(arguments) => one::delete(arguments),
        KvCommand::Scan(arguments) => scan::scan(arguments),
        KvCommand::Load(arguments) => load::load(arguments),
        KvCommand::Verify(arguments) => state::verify(arguments),
        KvCommand::Repair(arguments) => repair::repair(arguments),
        KvCommand::Dump(arguments) => state::dump(arguments),
        KvCommand::Grow(arguments) => grow::grow(arguments),
        KvCommand::Stats(arguments) => state::stats(arguments),
        KvCommand::Bench(arguments) => bench::bench(arguments),
    }
}
