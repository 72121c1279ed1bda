//! What runs inside the guest, and how it tells what came of it.

use super::super::linux_host::{queue_commands, queue_counters};
use crate::spec::{Program, Stack};

/// Files of the guest's folder on the host, which it finds as `$SCRATCH`.
const PREPARE: &str = "prepare.sh";
const MEASURE: &str = "measure.sh";
/// What the measured command printed, and its errors.
pub(super) const PRINTED: &str = "measured.out";
pub(super) const COMPLAINED: &str = "measured.err";
/// How it ended.
pub(super) const TOLD: &str = "told";
/// Keys of the spec whose commands the script names when they fail.
pub(super) const KEYS: [&str; 4] = ["prepare", "beside", "memory", "io_max"];

/// Commands by the names of their files.
pub(super) fn files(program: &Program) -> Vec<(String, String)> {
    let mut files = vec![(PREPARE.to_owned(), program.prepare.clone()), (MEASURE.to_owned(), program.measure.clone())];
    files.extend(program.beside.values().zip(0..).map(|(command, number)| (beside(number), command.clone())));
    files
}

fn beside(number: usize) -> String {
    format!("beside-{number}.sh")
}

/// The script of a run. It fails only where the measured command could not be begun.
pub(super) fn of(stack: &Stack, program: &Program) -> String {
    let mut script = queue_commands(stack);
    script += "fail() { echo \"$1: $2\" >&2; exit 1; }\n";
    script += &format!("(sh -e \"$SCRATCH/{PREPARE}\") || fail prepare \"status $?\"\nsync\n");
    if program.cold {
        script += "echo 3 > /proc/sys/vm/drop_caches\n";
    }
    if program.memory.is_some() || !program.io_max.is_empty() {
        script += &limits(program);
    }
    for number in 0..program.beside.len() {
        script += &format!("(exec sh -e \"$SCRATCH/{}\" > /dev/null 2> \"$SCRATCH/beside.err\") & ", beside(number));
        script += "besides=\"$besides $!\"\n";
    }
    script += &format!(
        "before=$(cat \"$disk/stat\"); begun=$(date +%s%N)
status=0; (sh -e \"$SCRATCH/{MEASURE}\") > \"$SCRATCH/{PRINTED}\" 2> \"$SCRATCH/{COMPLAINED}\" || status=$?
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

/// A control group for everything that follows.
fn limits(program: &Program) -> String {
    let mut script = String::from(
        "group=/tmp/plumb-group; mkdir -p $group; mount -t cgroup2 cgroup2 $group || fail memory 'no control groups'\n\
         echo '+memory +io' > $group/cgroup.subtree_control; mkdir $group/measured\n",
    );
    if let Some(memory) = program.memory {
        script += &format!("echo {} > $group/measured/memory.max || fail memory 'the kernel refuses it'\n", memory.0);
    }
    if !program.io_max.is_empty() {
        let words = program.io_max.replace('\'', "");
        script += &format!(
            "echo \"$(cat $disk/dev) \"'{words}' > $group/measured/io.max || fail io_max 'the kernel refuses it'\n"
        );
    }
    script += "echo $$ > $group/measured/cgroup.procs\n";
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
