//! `plumb calibrate cpu`: a table of processor costs, and how a guest that charges by it compares.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use ::linux::{Charges, Kernel, LinuxError};
use apps::processor::{self, Timed, Told};
use clap::Args;
use lab::processor::{Compared, ProcessorCostError, TRUSTED_SHARE, charges, compare};
use serde_json::json;
use units::{ServerCosts, printable};

use super::fs::computing::measure;
use super::{Done, linux};
use crate::failure::Failure;
use crate::terminal::print_table;

/// Where to measure, and where to write.
#[derive(Args)]
#[command(after_help = "Examples:
  plumb calibrate cpu --out my-machine.toml
  plumb linux --charge my-machine.toml --device samsung-980pro-1tb --fs ext4 -- fio job.fio

Measures loops of reads, writes, page faults and switches on this machine (`plumb app processor`), takes
from them what each kind of work costs, and runs the same loops in a guest that charges for it. What is
off by more than 25 % there is named: results that rest on it are not to be trusted. docs/charged-time.md
says what is charged and what stays free.")]
pub struct CpuArguments {
    /// A folder of a disk's file system, for 8 MiB
    #[arg(long, value_name = "DIR", default_value = ".")]
    folder: PathBuf,
    /// Write the table here
    #[arg(long, value_name = "FILE.toml")]
    out: Option<PathBuf>,
    /// Do not run the loops in a guest
    #[arg(long)]
    no_check: bool,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

pub fn cpu(arguments: &CpuArguments) -> Done {
    let timed = processor::run(&arguments.folder, |done| match done {
        Told::Timed(timed) if !arguments.json => eprintln!("{}: {:.0} ns", timed.operation, timed.median_ns()),
        Told::Timed(_) => {}
        Told::LeftOut(operation, why) => eprintln!("left out, and not charged: {operation}: {why}"),
    })
    .map_err(|error| Failure::Machine(error.to_string()))?;
    let table = Charges { plumb_fs: Some(measure()?), ..charges(&timed).map_err(failure)? };
    if let Some(path) = &arguments.out {
        fs::write(path, table.to_toml(&about()))
            .map_err(|error| Failure::Machine(format!("cannot write {}: {error}", path.display())))?;
    }
    let compared = if arguments.no_check { None } else { checked(&table, &timed)? };
    if arguments.json {
        println!("{:#}", json!({ "charges": table, "live": timed, "compared": compared }));
    } else {
        print(&table, compared.as_deref());
    }
    Ok(ExitCode::SUCCESS)
}

/// The jobs in a guest; nothing where there is no kernel.
fn checked(table: &Charges, timed: &[Timed]) -> Result<Option<Vec<Compared>>, Failure> {
    let kernel = match Kernel::cached() {
        Err(LinuxError::NoKernel) => {
            eprintln!("not checked: no kernel for virtual time is built (`plumb linux build`)");
            return Ok(None);
        }
        kernel => kernel.map_err(linux::failure)?,
    };
    compare(&linux::plumb()?, &kernel, table, timed).map(Some).map_err(failure)
}

fn print(table: &Charges, compared: Option<&[Compared]>) {
    let row = |group: &str, (name, ns): &(&str, u32)| vec![format!("{group}{name}"), ns.to_string()];
    let mut rows: Vec<Vec<String>> = table.entries().iter().map(|entry| row("", entry)).collect();
    let of_server = table.plumb_fs.iter().flat_map(ServerCosts::entries);
    rows.extend(of_server.map(|entry| row("plumb_fs.", &entry)));
    print_table(&["cost", "ns"], &rows);
    let Some(compared) = compared else { return };
    println!();
    let row = |one: &Compared| {
        let mark = if one.is_trusted() { "" } else { "off" };
        let by = if one.calibrated { "calibrated" } else { "check" };
        let [live, charged] = [one.live_ns, one.charged_ns].map(|ns| format!("{ns:.0}"));
        vec![one.name.clone(), by.to_owned(), live, charged, format!("{:.2}", one.ratio()), mark.to_owned()]
    };
    let rows: Vec<Vec<String>> = compared.iter().map(row).collect();
    print_table(&["job", "", "here ns", "charged ns", "ratio", ""], &rows);
    for one in compared.iter().filter(|one| !one.is_trusted()) {
        println!(
            "{}: off by more than {:.0} %; do not trust charged results that rest on it ({})",
            one.name,
            TRUSTED_SHARE * 100.0,
            one.operation
        );
    }
}

/// Which machine it is.
fn about() -> Vec<String> {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("an unknown processor", |(_, name)| name);
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    vec![
        "What the processor's work costs (plumb calibrate cpu), for `--charge` and `stack.linux.charge`.".to_owned(),
        printable(&format!("{model}, Linux {}", release.trim())).into_owned(),
    ]
}

fn failure(error: ProcessorCostError) -> Failure {
    match error {
        ProcessorCostError::Guest(error) => linux::failure(error),
        ProcessorCostError::Implausible { .. } => Failure::input(error),
        other => Failure::Machine(other.to_string()),
    }
}
