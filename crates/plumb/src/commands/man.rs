//! `plumb man`: the manual pages, from the same words as `--help`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Command};

use super::Done;
use crate::failure::Failure;

/// Where to.
#[derive(Args)]
#[command(after_help = "Examples:
  plumb man /usr/local/share/man/man1
  plumb man . && man ./plumb-serve.1")]
pub struct ManArguments {
    /// The folder that they are written to
    folder: PathBuf,
}

/// Writes one page for the command and one for each subcommand that help shows.
pub fn man(arguments: &ManArguments, command: Command) -> Done {
    let folder = &arguments.folder;
    std::fs::create_dir_all(folder).map_err(|error| cannot_write(folder, &error))?;
    let mut command = command;
    // Subcommands then know their whole names.
    command.build();
    write(folder, &command, "plumb")?;
    Ok(ExitCode::SUCCESS)
}

fn write(folder: &Path, command: &Command, name: &str) -> Result<(), Failure> {
    let path = folder.join(format!("{name}.1"));
    let mut page = Vec::new();
    // A date would make each build another.
    let written = clap_mangen::Man::new(command.clone()).title(name).date("").render(&mut page);
    written.and_then(|()| std::fs::write(&path, page)).map_err(|error| cannot_write(&path, &error))?;
    let shown = |command: &&Command| !command.is_hide_set() && command.get_name() != "help";
    for subcommand in command.get_subcommands().filter(shown) {
        write(folder, subcommand, &format!("{name}-{}", subcommand.get_name()))?;
    }
    Ok(())
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Machine(format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// Each page has a name, a synopsis and the examples of its help; what is hidden has none.
    #[test]
    fn every_shown_command_has_a_page() {
        let folder = tempfile::tempdir().unwrap();
        let pages = folder.path().join("pages");
        man(&ManArguments { folder: pages.clone() }, crate::Arguments::command()).unwrap();
        let read = |name: &str| std::fs::read_to_string(pages.join(name)).unwrap();
        assert!(read("plumb.1").contains(".SH SYNOPSIS"));
        let serve = read("plumb-serve.1");
        assert!(serve.contains("\\-\\-nvme\\-tcp") && serve.contains("Examples"), "{serve}");
        assert!(read("plumb-validate-host.1").contains("plumb validate host"));
        assert!(!pages.join("plumb-fuse-watchdog.1").exists() && !pages.join("plumb-help.1").exists());
    }
}
