//! `plumb merge`: shards into one.

use std::path::PathBuf;

use clap::Args;
use lab::results::Store;

use super::{Done, run};

/// Which folders.
#[derive(Args)]
#[command(after_help = "Example:
  plumb merge shard-1 shard-2 shard-3 --out results/whole")]
pub struct MergeArguments {
    /// Results folders of `plumb run --shard`
    #[arg(required = true)]
    folders: Vec<PathBuf>,
    /// Where the whole goes
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    /// Print results as JSON
    #[arg(long)]
    json: bool,
}

/// Gathers the shards' runs, checks that none is missing, writes the whole.
pub fn merge(arguments: &MergeArguments) -> Done {
    let shards = arguments.folders.iter().map(|folder| Store::open(folder)).collect::<Result<Vec<_>, _>>()?;
    let out = Store::create(&arguments.out)?;
    shards.iter().chain([&out]).for_each(run::say_damage);
    lab::outputs::merge(&shards, &out)?;
    let (experiment, plan) = lab::outputs::read(&out)?;
    let finished = lab::outputs::finish(&out, &experiment, &plan)?;
    if arguments.json {
        println!("{}", finished.json_text(&experiment));
    } else {
        run::print(&experiment, &finished);
        println!("\nresults  {}", out.folder().display());
        println!("report   {}", lab::outputs::report_path(&out).display());
    }
    Ok(run::verdict("", &finished.failures, finished.missed()))
}
