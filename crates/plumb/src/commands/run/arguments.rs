//! The arguments of `plumb run`, and the experiment that they ask for.

use std::path::{Path, PathBuf};

use clap::Args;
use lab::spec::Override;
use lab::{Experiment, Shard};

use crate::failure::Failure;

/// What to run and how.
#[derive(Args)]
#[command(after_help = "Examples:
  plumb run experiments/quickstart.toml
  plumb run experiments/zns
  plumb run job.fio --device optane-905p-960gb --json > fio.json
  plumb run job.fio --host linux --set stack.filesystem=ext4
  plumb run job.fio --set workload.set.iodepth=8 --set stack.block.scheduler=mq-deadline
  plumb run msr.csv --device hdd-7200-1tb --set workload.replay.disk=0
  plumb run sweep.toml --shard $SLURM_ARRAY_TASK_ID/16 --out shard-$SLURM_ARRAY_TASK_ID")]
pub struct RunArguments {
    /// An experiment spec (.toml), a folder of them, a fio job file (.fio, .job, .ini) or a block trace
    pub(super) file: PathBuf,
    /// Device profile, built-in (`plumb list devices`) or a .toml file
    #[arg(long, value_name = "NAME|FILE")]
    device: Option<String>,
    /// Run on Plumb's model of the host, or under a real Linux kernel in virtual time
    #[arg(long, value_name = "model|linux", value_parser = ["model", "linux"])]
    host: Option<String>,
    /// Change the spec: a dotted path and a TOML value
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<Override>,
    /// Seed of the first repeat
    #[arg(long)]
    seed: Option<u64>,
    /// Runs of every point, each under its own seed
    #[arg(long)]
    repeats: Option<u32>,
    /// Worker threads [default: one a core]; results do not depend on it
    #[arg(long)]
    pub(super) threads: Option<usize>,
    /// Do only every N-th run, from the I-th; put together by `plumb merge`
    #[arg(long, value_name = "I/N", default_value = "1/1")]
    pub(super) shard: Shard,
    /// Results folder [default: results/NAME-HASH]; of a folder of specs, where each has its own
    #[arg(long, value_name = "FOLDER")]
    pub(super) out: Option<PathBuf>,
    /// Forget earlier results instead of resuming
    #[arg(long)]
    pub(super) fresh: bool,
    /// Also write the first run's trace: trace.perfetto (ui.perfetto.dev) and trace.tsv
    #[arg(long)]
    pub(super) trace: bool,
    /// Also write the commands that the first run's device got, one a line: commands.tsv
    #[arg(long)]
    pub(super) command_log: bool,
    /// Print results as JSON (fio's json+ for a fio job)
    #[arg(long)]
    pub(super) json: bool,
    /// No progress bar
    #[arg(long, short)]
    pub(super) quiet: bool,
}

/// The experiment of `file`, with the command line's changes.
pub(super) fn load(arguments: &RunArguments, file: &Path) -> Result<Experiment, Failure> {
    let mut overrides = Vec::new();
    if let Some(device) = &arguments.device {
        overrides.push(Override::new("stack.device", device.clone().into()));
    }
    if let Some(host) = &arguments.host {
        overrides.push(Override::new("stack.host", host.clone().into()));
    }
    if let Some(seed) = arguments.seed {
        let seed = i64::try_from(seed).map_err(|_| Failure::input("--seed must be below 2^63"))?;
        overrides.push(Override::new("run.seed", seed.into()));
    }
    if let Some(repeats) = arguments.repeats {
        overrides.push(Override::new("run.repeats", i64::from(repeats).into()));
    }
    overrides.extend(arguments.set.iter().cloned());
    if file.extension().is_some_and(|extension| extension == "toml") {
        return Ok(Experiment::load(file, &overrides)?);
    }
    Ok(lab::adhoc::experiment(file, &overrides)?)
}
