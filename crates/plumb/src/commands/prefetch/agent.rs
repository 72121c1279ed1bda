//! `plumb prefetch agent`: a service that tells processes what of their files is in memory.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use prefetcher::agent::client::Agent as Client;
use prefetcher::agent::{Agent, SOCKET, Serving};
use prefetcher::settings::Settings;
use units::ByteSize;

use crate::commands::Done;
use crate::failure::Failure;

#[derive(Args)]
#[command(after_help = "Examples:
  plumb prefetch agent
  plumb prefetch agent --status
  plumb prefetch agent --socket /tmp/agent.sock & plumb prefetch run --agent /tmp/agent.sock --residency bpf -- ./my-program

Programs in the kernel keep a bit for each page of the files that somebody asked for. `plumb prefetch run` asks where the agent's
socket is there; who asks gets the bits of a file that he owns or has open for writing, as the kernel would tell him by cachestat(2),
and of no other. On ext4, XFS and F2FS. Loading for control groups takes Linux 6.12, and the capabilities to look at others'
descriptors (CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH). Without the agent, and where it ends, cachestat is asked, or nobody.

It serves until SIGINT or SIGTERM. packaging/systemd has a unit with its two capabilities.")]
pub struct AgentArguments {
    /// Where it listens
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    socket: PathBuf,
    /// Also load what programs in this control group are about to read, static ones and Go too; can be given again
    #[arg(long, value_name = "CGROUP", conflicts_with = "status")]
    prefetch_for: Vec<PathBuf>,
    /// Most memory for what was loaded for them and is not read yet [default: half of what is available]
    #[arg(long, value_name = "SIZE", requires = "prefetch_for")]
    budget: Option<ByteSize>,
    /// Say what the running agent has done, as JSON, instead of being one
    #[arg(long)]
    status: bool,
}

/// Does it.
pub fn agent(arguments: &AgentArguments) -> Done {
    let machine = |error: &dyn std::fmt::Display| Failure::Machine(error.to_string());
    if arguments.status {
        let failed = |error| Failure::Machine(format!("no agent answers at {}: {error}", arguments.socket.display()));
        println!("{}", Client::connect(&arguments.socket).and_then(|client| client.status()).map_err(failed)?);
        return Ok(ExitCode::SUCCESS);
    }
    let stop = crate::commands::linux::stop()?;
    let mut agent = Agent::start(&arguments.socket).map_err(|error| machine(&error))?;
    let settings = Settings { budget: arguments.budget, ..Settings::default() };
    let is_serving = !arguments.prefetch_for.is_empty();
    let serving = is_serving.then(|| Serving::begin(&arguments.prefetch_for, &settings)).transpose();
    let serving = serving.map_err(|error| machine(&error))?;
    eprintln!("plumb: listening at {}", arguments.socket.display());
    let counts = agent.serve(&stop, serving.as_ref()).map_err(|error| machine(&error))?;
    eprintln!(
        "plumb: {} bitmaps handed out; refused {} that were not permitted and {} that cannot be followed",
        counts.handed_out, counts.not_permitted, counts.not_possible
    );
    if let Some(served) = serving.map(Serving::finish) {
        let (seen, windows) = (served.reads_seen, served.report.windows_loaded);
        let loaded = ByteSize(served.report.loaded_bytes);
        eprintln!("plumb: {seen} reads seen; {windows} windows, {loaded}, loaded for them");
    }
    Ok(ExitCode::SUCCESS)
}
