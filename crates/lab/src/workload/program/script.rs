//! The shell scripts of a run, and how they tell what came of it.

use std::path::Path;

use crate::host::linux::{queue_commands, queue_counters};
use crate::spec::{Program, Stack};

/// Files of the run's folder, which the scripts find as `$SCRATCH`.
const PREPARE: &str = "prepare.sh";
const MEASURE: &str = "measure.sh";
/// What is prefetched for it, and what came of that.
const PROFILE: &str = "prefetch.toml";
pub(super) const PREFETCHED: &str = "prefetched.json";
/// What the measured command printed, and its errors.
pub(super) const PRINTED: &str = "measured.out";
pub(super) const COMPLAINED: &str = "measured.err";
/// How it ended.
pub(super) const TOLD: &str = "told";
/// Keys of the spec whose commands the scripts name when they fail.
pub(super) const KEYS: [&str; 4] = ["prepare", "beside", "memory", "io_max"];

/// Where control groups are made.
#[derive(Clone, Copy)]
pub(super) enum Groups<'a> {
    /// The guest has no other use for them: a mount of the run's own.
    Guest,
    /// Those of this machine: their root, and the group's name.
    Live(&'a Path, &'a str),
}

/// Commands by the names of their files.
pub(super) fn files(program: &Program) -> Vec<(String, String)> {
    let mut files = vec![(PREPARE.to_owned(), program.prepare.clone()), (MEASURE.to_owned(), program.measure.clone())];
    // A profile is plain keys and values, which always have a form.
    let profile = |settings| toml::to_string(settings).unwrap_or_default();
    files.extend(program.prefetch.as_ref().map(|settings| (PROFILE.to_owned(), profile(settings))));
    files.extend(program.beside.values().zip(0..).map(|(command, number)| (beside(number), command.clone())));
    files
}

fn beside(number: usize) -> String {
    format!("beside-{number}.sh")
}

/// A way to fail that names the key of the command.
pub(super) const FAIL: &str = "fail() { echo \"$1: $2\" >&2; exit 1; }\n";

/// What stands before a script that measures: the queue's settings, and [`FAIL`].
pub(super) fn start(stack: &Stack) -> String {
    queue_commands(stack) + FAIL
}

/// What is made before, without the variables that its commands do not name: what differs in these alone is prepared alike.
pub(super) fn prepare(program: &Program, variables: &[(String, String)]) -> String {
    let unnamed: String = variables
        .iter()
        .filter(|(name, _)| !names(&program.prepare, name))
        .map(|(name, _)| format!("unset {name}; "))
        .collect();
    format!("({unnamed}sh -e \"$SCRATCH/{PREPARE}\") || fail prepare \"status $?\"\n")
}

/// Whether commands have this name as a word of its own.
pub(super) fn names(commands: &str, name: &str) -> bool {
    commands.split(|character: char| !character.is_alphanumeric() && character != '_').any(|word| word == name)
}

/// What a guest does of a run that prepares for itself: everything is on the device, and the caches as the spec says.
pub(super) fn settle(program: &Program) -> &'static str {
    if program.cold { "sync\necho 3 > /proc/sys/vm/drop_caches\n" } else { "sync\n" }
}

/// The measured command with its limits and what runs beside it. It fails only where the command could not be begun.
///
/// What runs beside pays for its system calls where `besides_pay`.
pub(super) fn measure(program: &Program, groups: Groups<'_>, besides_pay: bool) -> String {
    let pay = if besides_pay { format!("echo 1 > {}; ", linux::OWN_SWITCH) } else { String::new() };
    let mut script = String::new();
    if is_limited(program) {
        script += &limits(program, groups);
    }
    for number in 0..program.beside.len() {
        let beside = beside(number);
        script += &format!("({pay}exec sh -e \"$SCRATCH/{beside}\" > /dev/null 2> \"$SCRATCH/beside.err\") & ");
        script += "besides=\"$besides $!\"\n";
    }
    let under = match program.prefetch {
        Some(_) => format!(
            "exec \"$PLUMB\" prefetch run --profile \"$SCRATCH/{PROFILE}\" --json \"$SCRATCH/{PREFETCHED}\" -- "
        ),
        None => String::new(),
    };
    script += &format!(
        "before=$(cat \"$disk/stat\"); begun=$(date +%s%N)
status=0; ({under}sh -e \"$SCRATCH/{MEASURE}\") > \"$SCRATCH/{PRINTED}\" 2> \"$SCRATCH/{COMPLAINED}\" || status=$?
ended=$(date +%s%N); after=$(cat \"$disk/stat\")
for process in $besides; do
    if kill -0 $process 2> /dev/null; then continue; fi
    wait $process || fail beside \"status $?, before the measured command had ended: $(tail -n 1 \"$SCRATCH/beside.err\")\"
done
# Their children, too.
[ -z \"$besides\" ] || pkill -KILL -P \"$(echo $besides | tr ' ' ,)\" || :
kill -KILL $besides 2> /dev/null || :
printf '%s\\n' $status $((ended - begun)) \"$before\" \"$after\" > \"$SCRATCH/{TOLD}\"
"
    );
    script
}

/// Whether the programs have limits.
pub(super) fn is_limited(program: &Program) -> bool {
    program.memory.is_some() || !program.io_max.is_empty()
}

/// A control group for everything that follows.
fn limits(program: &Program, groups: Groups<'_>) -> String {
    let mut script = match groups {
        Groups::Guest => String::from(
            "groups=/tmp/plumb-group; group=$groups/measured; mkdir -p $groups\n\
             mount -t cgroup2 cgroup2 $groups || fail memory 'no control groups'\n",
        ),
        Groups::Live(root, name) => format!("groups='{}'; group=$groups/{name}\n", root.display()),
    };
    // One that is not there is missed by who needs it.
    script +=
        "for controller in memory io; do echo +$controller > $groups/cgroup.subtree_control || :; done\nmkdir $group\n";
    if let Some(memory) = program.memory {
        script += &format!("echo {} > $group/memory.max || fail memory 'the kernel refuses it'\n", memory.0);
    }
    if !program.io_max.is_empty() {
        let words = program.io_max.replace('\'', "");
        script +=
            &format!("echo \"$(cat $disk/dev) \"'{words}' > $group/io.max || fail io_max 'the kernel refuses it'\n");
    }
    script += "echo $$ > $group/cgroup.procs\n";
    script
}

/// What the script wrote down.
#[derive(Debug, PartialEq)]
pub(super) struct Told {
    pub(super) status: u8,
    pub(super) elapsed_ns: u64,
    /// `block.*` of what was measured.
    pub(super) counters: Vec<(String, u64)>,
}

impl Told {
    pub(super) fn read(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let status = lines.next()?.trim().parse().ok()?;
        let elapsed_ns = lines.next()?.trim().parse().ok()?;
        let (before, after) = (queue_counters(lines.next()?), queue_counters(lines.next()?));
        let counters = after
            .into_iter()
            .zip(before)
            .map(|((name, after), (_, before))| (name, after.saturating_sub(before)))
            .collect();
        Some(Self { status, elapsed_ns, counters })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_run_under_the_settings_that_it_has() {
        let mut program = Program { measure: "true".to_owned(), ..Program::default() };
        assert!(!measure(&program, Groups::Guest, false).contains("prefetch"));
        program.prefetch = Some(toml::from_str("mode = \"budget\"\nbudget = \"1GiB\"").unwrap());
        assert!(measure(&program, Groups::Guest, false).contains("prefetch run --profile"));
        let (_, profile) = files(&program).into_iter().find(|(name, _)| name == PROFILE).unwrap();
        assert_eq!(toml::from_str(&profile).ok(), program.prefetch);
    }

    #[test]
    fn what_is_prepared_sees_the_variables_that_it_names() {
        let program = Program { prepare: "fill ${FILES:-3} \"$NAME\"; echo $ROWS".to_owned(), ..Program::default() };
        let variables = ["FILES", "NAME", "ROW", "FILE"].map(|name| (name.to_owned(), "1".to_owned()));
        let text = prepare(&program, &variables);
        assert!(text.starts_with("(unset ROW; unset FILE; sh -e "), "{text}");
    }

    #[test]
    fn what_was_told_is_the_difference() {
        let told = Told::read(
            "3\n1500\n1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n 9 2 3 4 5 6 7 8 9 10 11 12 13 14 15 20 17\n",
        )
        .unwrap();
        assert_eq!((told.status, told.elapsed_ns), (3, 1500));
        assert!(told.counters.contains(&("block.read_commands".to_owned(), 8)));
        assert!(told.counters.contains(&("block.flush_commands".to_owned(), 4)));
        for text in ["", "x", "0\n", "0\n1\n", "300\n1\n1\n1\n"] {
            assert_eq!(Told::read(text), None, "{text:?}");
        }
    }
}
