//! What a kernel's log says of a guest that did not come to its end.

use crate::error::LinuxError;

/// Lines of the log that an error shows.
const TAIL_LINES: usize = 20;

/// The end of a log.
pub(super) fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

/// The process that the kernel killed for want of memory, in its words. A cgroup's limit is the
/// command's own affair.
pub(super) fn killed_for_memory(log: &str) -> Option<&str> {
    log.lines().find_map(|line| line.find("Out of memory: Killed process").map(|at| &line[at..]))
}

/// What a kernel says that cannot map a page of a process: on the host each piece of scattered memory is a
/// mapping of its own, and their number is limited.
pub(super) fn out_of_mappings(log: &str) -> Option<LinuxError> {
    let said = ["vm.max_map_count", "Error flushing stub syscalls: 12"].iter().any(|words| log.contains(words));
    said.then(|| LinuxError::Guest {
        message: "a process inside uses more memory than the host's vm.max_map_count allows it to map in pieces (some \
                  200 MB): write less before each sync, make the device smaller (--set), or `sysctl \
                  vm.max_map_count=1000000` on the host"
            .to_owned(),
        log: String::new(),
    })
}

/// Why a guest that said nothing more has stopped.
pub(super) fn silent_end(log: &str, memory_bytes: u64, status: &str) -> LinuxError {
    let panic = log.lines().find_map(|line| line.split_once("Kernel panic - not syncing: ").map(|(_, reason)| reason));
    let said = tail(log);
    if let Some(error) = out_of_mappings(log) {
        return error;
    }
    match panic {
        Some(reason) if reason.contains("going to sleep forever") => LinuxError::Deadlock { log: said },
        Some(reason) if reason.contains("Out of memory") || reason.contains("out of memory") => {
            LinuxError::OutOfMemory { memory_mib: memory_bytes >> 20, victim: reason.to_owned(), log: said }
        }
        Some(reason) => match killed_for_memory(log) {
            Some(victim) => {
                LinuxError::OutOfMemory { memory_mib: memory_bytes >> 20, victim: victim.to_owned(), log: said }
            }
            None => LinuxError::Panic { reason: reason.to_owned(), log: said },
        },
        None => {
            LinuxError::Guest { message: format!("the kernel inside ended ({status}) without a result"), log: said }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_is_recognised() {
        let of = |log: &str| silent_end(log, 1 << 30, "exit status: 0");
        assert!(matches!(
            of("a\n[ 1.0] Kernel panic - not syncing: VFS: Unable to mount root\nb"),
            LinuxError::Panic { reason, log } if reason == "VFS: Unable to mount root" && log.ends_with("\nb")
        ));
        let forever = "Kernel panic - not syncing: The system was going to sleep forever, aborting\n";
        assert!(matches!(of(forever), LinuxError::Deadlock { .. }));
        let killed =
            "[ 9.1] Out of memory: Killed process 77 (plumb)\nKernel panic - not syncing: Attempted to kill init!\n";
        assert!(
            matches!(of(killed), LinuxError::OutOfMemory { memory_mib: 1024, victim, .. } if victim.ends_with("77 (plumb)"))
        );
        assert!(matches!(of(""), LinuxError::Guest { .. }));
        assert!(of("userspace - Error flushing stub syscalls: 12").to_string().contains("vm.max_map_count"));
        assert_eq!(killed_for_memory("Memory cgroup out of memory: Killed process 5 (x)"), None);
        let long: String = (0..100).map(|line| format!("{line}\n")).collect();
        assert!(tail(&long).starts_with("80\n"));
    }
}
