//! Arguments of a command that are told to clap only when the command is asked for: of some thousand that there are, most starts of the
//! program need one command's.

use clap::builder::Resettable;
use clap::{ArgMatches, Args, Command, Error, FromArgMatches};

/// The arguments of a command.
pub struct Deferred<T>(pub T);

impl<T: Args> Args for Deferred<T> {
    fn augment_args(command: Command) -> Command {
        command.defer(|command| {
            // What is said of the command where it is named, not where its arguments are.
            let (about, long_about) = (command.get_about().cloned(), command.get_long_about().cloned());
            T::augment_args(command).about(Resettable::from(about)).long_about(Resettable::from(long_about))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<T: FromArgMatches> FromArgMatches for Deferred<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn arguments_are_told_when_a_command_is_built() {
        let mut command = crate::Arguments::command();
        let of_run = |command: &clap::Command| command.find_subcommand("run").unwrap().get_arguments().count();
        assert_eq!(of_run(&command), 0);
        command.build();
        assert!(of_run(&command) > 10);
        let about = command.find_subcommand("run").unwrap().get_about().unwrap().to_string();
        assert_eq!(about, "Run an experiment spec, a fio job file or a block trace");
    }
}
