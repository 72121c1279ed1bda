//! `plumb completion`: what a shell needs to complete the command line, from the same words as `--help`.

use std::io::Write;
use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::Shell;

use super::Done;
use crate::failure::Failure;

/// Whose.
#[derive(Args)]
#[command(after_help = "Examples:
  plumb completion bash > /usr/share/bash-completion/completions/plumb
  plumb completion zsh > /usr/local/share/zsh/site-functions/_plumb
  plumb completion fish > ~/.config/fish/completions/plumb.fish")]
pub struct CompletionArguments {
    /// The shell
    shell: Shell,
}

/// Prints its script.
pub fn completion(arguments: &CompletionArguments, command: Command) -> Done {
    let failed = |error: std::io::Error| Failure::Machine(format!("cannot write the script: {error}"));
    std::io::stdout().write_all(&script(arguments.shell, &command)).map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}

/// The script. What help does not show is not completed.
fn script(shell: Shell, command: &Command) -> Vec<u8> {
    let mut script = Vec::new();
    // Subcommands then know their arguments.
    let mut command = command.clone();
    command.build();
    clap_complete::generate(shell, &mut without_hidden(&command), "plumb", &mut script);
    script
}

/// The command without the subcommands that help does not show, which clap's scripts would offer, and without what clap itself adds when
/// it builds one.
fn without_hidden(command: &Command) -> Command {
    let is_own = |name: &str| !matches!(name, "help" | "version");
    let shown = command.get_subcommands().filter(|one| !one.is_hide_set() && is_own(one.get_name()));
    // clap wants names that stay; these go with the process, when the script is printed.
    let name: &'static str = command.get_name().to_owned().leak();
    let mut out = Command::new(name)
        .args(command.get_arguments().filter(|argument| is_own(argument.get_id().as_str())).cloned())
        .groups(command.get_groups().cloned())
        .subcommand_negates_reqs(command.is_subcommand_negates_reqs_set())
        .args_conflicts_with_subcommands(command.is_args_conflicts_with_subcommands_set())
        .subcommands(shown.map(without_hidden));
    if let Some(about) = command.get_about() {
        out = out.about(about.clone());
    }
    if command.get_version().is_some() {
        out = out.version(env!("CARGO_PKG_VERSION"));
    }
    out
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn what_help_shows_is_completed_and_the_rest_is_not() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = String::from_utf8(script(shell, &crate::Arguments::command())).unwrap();
            for word in ["prefetch", "advise", "residency", "simulate"] {
                assert!(script.contains(word), "{shell}: {word}");
            }
            assert!(!script.contains("fuse-watchdog") && !script.contains("linux-guest"), "{shell}");
        }
    }

    /// The shell itself takes the script.
    #[test]
    fn shells_read_their_scripts() {
        let folder = tempfile::tempdir().unwrap();
        for (shell, program) in [(Shell::Bash, "bash"), (Shell::Zsh, "zsh"), (Shell::Fish, "fish")] {
            let path = folder.path().join(program);
            std::fs::write(&path, script(shell, &crate::Arguments::command())).unwrap();
            match std::process::Command::new(program).arg("-n").arg(&path).output() {
                Ok(output) => assert!(output.status.success() && output.stderr.is_empty(), "{output:?}"),
                Err(_) => println!("skipped: {program} is not here"),
            }
        }
    }
}
