//! The Bε-tree beside its peers: every engine does the same work in a process of its own, with the same memory for caches
//! and buffers, in a memory cgroup where one may be made.
//!
//! ```text
//! cargo run --release --manifest-path bench/Cargo.toml -p bench-engines -- [NAME=VALUE]...
//! ```
//!
//! Names: `entries`, `value` (bytes), `operations`, `memory_mib` (a quarter of the data otherwise, 64 at least), `cache_mib` (a quarter of
//! that otherwise), `limit_s` (for a phase), `folder`, `engines` (with commas). The folder gets `results.tsv`, `table.md` and `engines.svg`.

mod cgroup;
mod engine;
mod engines;
mod measure;
mod phases;
mod plan;
mod plot;
mod table;
mod zipf;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use cgroup::Group;
use measure::Measured;
use plan::Plan;

pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// What one engine did.
#[derive(Default)]
pub struct Outcome {
    pub name: String,
    pub version: String,
    pub remarks: String,
    pub phases: Vec<Measured>,
    /// Bytes that the store takes on its file system: loaded and at rest, and in the end.
    pub space_bytes: [u64; 2],
    pub resident_bytes: u64,
    /// The most that its group had, pages of files included.
    pub group_bytes: Option<u64>,
    /// Why it did not get to the end.
    pub error: Option<String>,
}

/// The version of a package that this program was built with.
pub fn locked_version(package: &str) -> String {
    let lock = include_str!("../../Cargo.lock");
    let wanted = format!("name = \"{package}\"");
    let mut lines = lock.lines().skip_while(|line| *line != wanted);
    let version = lines.nth(1).and_then(|line| line.strip_prefix("version = "));
    version.map_or("of unknown version".to_owned(), |version| version.trim_matches('"').to_owned())
}

/// Bytes that the files of a folder take.
fn space_bytes(folder: &Path) -> Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut sum = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        sum += if metadata.is_dir() { space_bytes(&entry.path())? } else { metadata.blocks() * 512 };
    }
    Ok(sum)
}

/// One engine, in this process; lines for the process that started it.
fn work(name: &str, plan: &Plan) -> Result<()> {
    let folder = plan.folder.join(name);
    let mut engine = engine::open(name, plan)?;
    println!("version\t{}", engine.version());
    println!("remarks\t{}", engine.remarks());
    let mut each = |measured: &Measured| {
        println!("phase\t{}", measured.line());
        if measured.phase == "rest after load" {
            println!("space\t{}", space_bytes(&folder).unwrap_or(0));
        }
    };
    phases::Run::new(&mut *engine, plan, &mut each).all()?;
    println!("resident\t{}", measure::most_resident_bytes()?);
    drop(engine);
    println!("end\t{}", space_bytes(&folder)?);
    Ok(())
}

/// Starts one engine's process and takes what it says.
fn watch(name: &str, plan: &Plan, group: Option<&Group>) -> Result<Outcome> {
    let mut outcome = Outcome { name: name.to_owned(), version: name.to_owned(), ..Outcome::default() };
    let mut command = Command::new(std::env::current_exe()?);
    command.args(plan.arguments(name)).stdout(Stdio::piped());
    if let Some(group) = group {
        command.env(GROUP, group.processes());
    }
    let mut child = command.spawn()?;
    let output = child.stdout.take().ok_or("no output")?;
    for line in BufReader::new(output).lines() {
        let line = line?;
        let (kind, rest) = line.split_once('\t').ok_or(format!("{line}: no kind"))?;
        match kind {
            "version" => rest.clone_into(&mut outcome.version),
            "remarks" => rest.clone_into(&mut outcome.remarks),
            "phase" => {
                let measured = Measured::parse(rest)?;
                eprintln!(
                    "{}: {}, {} in {:.2} s",
                    outcome.version, measured.phase, measured.operations, measured.wall_s
                );
                outcome.phases.push(measured);
            }
            "space" => outcome.space_bytes[0] = rest.parse()?,
            "end" => outcome.space_bytes[1] = rest.parse()?,
            "resident" => outcome.resident_bytes = rest.parse()?,
            "error" => outcome.error = Some(rest.to_owned()),
            _ => return Err(format!("{line}: unknown").into()),
        }
    }
    let status = child.wait()?;
    if !status.success() && outcome.error.is_none() {
        outcome.error = Some(format!("it ended with {status}"));
    }
    outcome.group_bytes = group.and_then(Group::peak_bytes);
    Ok(outcome)
}

/// In the environment of an engine's process: where it joins its group.
const GROUP: &str = "PLUMB_ENGINES_GROUP";

fn run() -> Result<()> {
    let plan = Plan::from_arguments(std::env::args().skip(1))?;
    if let Some(name) = &plan.only {
        if let Some(processes) = std::env::var_os(GROUP) {
            std::fs::write(processes, std::process::id().to_string())?;
        }
        if let Err(error) = work(name, &plan) {
            println!("error\t{}", error.to_string().replace(['\t', '\n'], " "));
        }
        return Ok(());
    }
    std::fs::create_dir_all(&plan.folder)?;
    let mut outcomes = Vec::new();
    let mut bounds = format!("a memory cgroup of {} MiB", plan.memory_bytes >> 20);
    for name in &plan.engines {
        let group = match Group::make("plumb-engines", plan.memory_bytes) {
            Ok(group) => Some(group),
            Err(why) => {
                bounds = format!("no memory cgroup, as none may be made here ({why})");
                None
            }
        };
        outcomes.push(watch(name, &plan, group.as_ref())?);
        // Its store is not needed any more.
        std::fs::remove_dir_all(plan.folder.join(name))?;
    }
    let table = table::table(&plan, &bounds, &outcomes);
    print!("{table}");
    std::fs::write(plan.folder.join("table.md"), table)?;
    std::fs::write(plan.folder.join("results.tsv"), table::results(&outcomes))?;
    std::fs::write(plan.folder.join("engines.svg"), plot::plot(&outcomes))?;
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
