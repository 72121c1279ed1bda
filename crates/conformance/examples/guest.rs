//! Runs a bash script in a guest and prints what it found:
//! `cargo run -p plumb-conformance --example guest -- 6.12 script.sh [PROGRAM or FOLDER…]`.
//! The functions a script may use are listed in `crates/conformance/guest/library`.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use conformance::{Guest, Kernel, Series};

/// A script that a person runs may take its time.
const TIME_LIMIT: Duration = Duration::from_secs(3600);

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [series, script, programs @ ..] = &arguments[..] else {
        return Err("usage: guest 6.12|6.1 SCRIPT [PROGRAM or FOLDER…] [-- QEMU ARGUMENT…]".into());
    };
    let series =
        Series::ALL.into_iter().find(|known| known.to_string() == *series).ok_or("the kernels are 6.12 and 6.1")?;
    let (programs, extra) = match programs.iter().position(|argument| argument == "--") {
        Some(at) => (&programs[..at], &programs[at + 1..]),
        None => (programs, &[][..]),
    };
    let kernel = Kernel::fetch(series)?;
    let extra: Vec<&str> = extra.iter().map(String::as_str).collect();
    let guest =
        programs.iter().fold(
            Guest::new(&kernel).qemu(&extra).time_limit(TIME_LIMIT),
            |guest, program| match Path::new(program) {
                folder if folder.is_dir() => {
                    guest.file(&folder.file_name().unwrap_or_default().to_string_lossy(), folder)
                }
                program => guest.program(program),
            },
        );
    let folder = Path::new("target/guest");
    let report = guest.run(&std::fs::read_to_string(script)?, folder)?;
    for check in report.checks() {
        println!(
            "{:7.0} ms  {:40} {}",
            check.elapsed.as_secs_f64() * 1e3,
            check.name,
            check.failure.as_deref().unwrap_or("ok")
        );
    }
    let faults = report.faults();
    for fault in &faults {
        println!("FAULT {fault}");
    }
    println!("transcript: {}", report.folder().display());
    Ok(if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
