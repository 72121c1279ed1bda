//! Which of the host's processors a guest runs on: one.
//!
//! Of a guest's kernel and the processes inside only one runs at a time, and they take turns at each system call. On two processors each
//! turn wakes an idle one up, which takes several times as long as the turn itself. So all of them stay on one, and move together
//! where others are in their way, and guests of one starter share a processor only where there are more guests than processors.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// How often it is looked at who is in the way, at least, and how much later some guests look: two that are in each other's way
/// must not move at the same time.
const LOOK_EVERY: Duration = Duration::from_millis(800);
const LOOK_LATER_MS: u64 = 500;
/// A guest that ran for less than so much of that time is in somebody's way if another processor was idle for so much, in percent.
const RAN_PERCENT: u64 = 70;
const IDLE_PERCENT: u64 = 30;
/// Processes of a guest that are moved, at most.
const PROCESSES_MAX: usize = 4096;

/// The processors that this process may use; nothing where there is no choice.
fn allowed() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    let found: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|number| set.is_set(*number)).collect();
    if found.len() > 1 { found } else { Vec::new() }
}

/// Where a guest that is about to be started runs first: where its starter does, since the host's scheduler chose that.
pub(super) fn first() -> Option<CpuSet> {
    let here = sched_getcpu();
    allowed().contains(&here).then(|| only(here))
}

fn only(processor: usize) -> CpuSet {
    let mut set = CpuSet::new();
    set.set(processor);
    set
}

/// Keeps a guest where it gets on.
pub(super) struct Placement {
    kernel: Pid,
    allowed: Vec<usize>,
    look_every: Duration,
    looked_at: Instant,
    /// What the guest had run by then.
    ran: Duration,
    /// What each processor had been idle by then.
    idle: Vec<Duration>,
}

impl Placement {
    pub(super) fn new(kernel: Pid) -> Self {
        let allowed = allowed();
        let idle = idle_times(&allowed);
        let later = u64::from(kernel.as_raw_nonzero().get().unsigned_abs()).wrapping_mul(97) % LOOK_LATER_MS;
        let look_every = LOOK_EVERY + Duration::from_millis(later);
        Self { ran: ran(kernel), kernel, allowed, look_every, looked_at: Instant::now(), idle }
    }

    /// Is called now and then while the guest runs.
    pub(super) fn look(&mut self) {
        let spent = self.looked_at.elapsed();
        if self.allowed.is_empty() || spent < self.look_every {
            return;
        }
        let (ran, idle) = (ran(self.kernel), idle_times(&self.allowed));
        let was_idle = idle.iter().zip(&self.idle).map(|(now, before)| now.saturating_sub(*before));
        let is_held_up = !is_share(ran.saturating_sub(self.ran), spent, RAN_PERCENT);
        let idlest = self.allowed.iter().zip(was_idle).max_by_key(|(_, idle)| *idle);
        let better = idlest.filter(|(_, idle)| is_share(*idle, spent, IDLE_PERCENT)).map(|(processor, _)| *processor);
        if let Some(processor) = better.or_else(|| self.less_crowded()).filter(|_| is_held_up) {
            let set = only(processor);
            for process in family(self.kernel) {
                // One that has ended meanwhile needs no place.
                let _ = sched_setaffinity(Some(process), &set);
            }
        }
        (self.looked_at, self.ran, self.idle) = (Instant::now(), ran, idle);
    }

    /// On a busy machine no processor is idle, and two guests whose starters ran on the same one would have half of it each.
    fn less_crowded(&self) -> Option<usize> {
        let guests: Vec<(Pid, usize)> =
            children().into_iter().filter_map(|child| Some((child, place(child)?))).take(PROCESSES_MAX).collect();
        less_crowded(self.kernel, &guests, &self.allowed)
    }
}

/// Where fewer of the guests are than where `guest` is, also when it comes. The youngest goes.
fn less_crowded(guest: Pid, guests: &[(Pid, usize)], processors: &[usize]) -> Option<usize> {
    let (_, here) = guests.iter().find(|(other, _)| *other == guest)?;
    let on = |processor: usize| guests.iter().filter(move |(_, place)| *place == processor);
    let youngest = on(*here).map(|(guest, _)| guest.as_raw_nonzero()).max()?;
    let count = |processor: usize| on(processor).count();
    let least = processors.iter().copied().min_by_key(|processor| count(*processor))?;
    (youngest == guest.as_raw_nonzero() && count(least) + 1 < count(*here)).then_some(least)
}

/// The processor that a process is kept on, if it is one.
fn place(process: Pid) -> Option<usize> {
    let set = sched_getaffinity(Some(process)).ok()?;
    let mut places = (0..CpuSet::MAX_CPU).filter(|number| set.is_set(*number));
    places.next().filter(|_| places.next().is_none())
}

/// Whether a part is at least so many percent of the whole.
fn is_share(part: Duration, whole: Duration, percent: u64) -> bool {
    part.as_nanos() * 100 >= whole.as_nanos() * u128::from(percent)
}

/// How long a guest's processes have run, those that ended too (proc(5), `/proc/PID/stat`).
fn ran(kernel: Pid) -> Duration {
    let ticks = |process: &Pid| {
        let text = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())).unwrap_or_default();
        // The name in brackets may hold anything.
        let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
        let count = if *process == kernel { 4 } else { 2 };
        rest.split_whitespace().skip(11).take(count).filter_map(|word| word.parse::<u64>().ok()).sum::<u64>()
    };
    duration(family(kernel).iter().map(ticks).sum())
}

fn duration(ticks: u64) -> Duration {
    Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second().max(1))
}

/// How long each of these processors has been idle since the host started (proc(5), `/proc/stat`).
fn idle_times(processors: &[usize]) -> Vec<Duration> {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let idle = |processor: &usize| {
        let name = format!("cpu{processor} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&name))?;
        line.split_whitespace().nth(3)?.parse().ok().map(duration)
    };
    processors.iter().map(|processor| idle(processor).unwrap_or_default()).collect()
}

/// What the threads of this process started.
fn children() -> Vec<Pid> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    threads.flat_map(|thread| started_by(&thread.path())).collect()
}

/// What a thread started (proc(5), `/proc/PID/task/TID/children`).
fn started_by(thread: &Path) -> Vec<Pid> {
    let text = fs::read_to_string(thread.join("children")).unwrap_or_default();
    text.split_whitespace().filter_map(|word| Pid::from_raw(word.parse().ok()?)).collect()
}

/// A process and what it started.
fn family(first: Pid) -> Vec<Pid> {
    let mut found = vec![first];
    let mut next = 0;
    while let Some(process) = found.get(next).copied().filter(|_| found.len() < PROCESSES_MAX) {
        next += 1;
        let number = process.as_raw_nonzero();
        found.extend(started_by(Path::new(&format!("/proc/{number}/task/{number}"))));
    }
    found
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_family_moves_together() {
        let Some(home) = first() else {
            println!("skipped: this machine has one processor");
            return;
        };
        assert_eq!(home.count(), 1);
        let mut shell = Command::new("sh");
        let mut shell = shell.args(["-c", "sleep 60 & read line; kill $!"]).stdin(Stdio::piped()).spawn().unwrap();
        let pid = Pid::from_child(&shell);
        let mut members = Vec::new();
        for _ in 0..200 {
            members = family(pid);
            if members.len() == 2 {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(members.len(), 2);
        for member in members {
            sched_setaffinity(Some(member), &home).unwrap();
            assert_eq!(sched_getaffinity(Some(member)).unwrap(), home);
        }
        drop(shell.stdin.take());
        shell.wait().unwrap();
    }

    #[test]
    fn guests_of_one_starter_spread_over_the_processors() {
        let pid = |number| Pid::from_raw(number).unwrap();
        let mut guests = [(pid(7), 1), (pid(5), 1), (pid(6), 1), (pid(9), 0)];
        let moves = |guests: &[(Pid, usize)]| -> Vec<(Pid, usize)> {
            let better = |(guest, _): &(Pid, usize)| Some((*guest, less_crowded(*guest, guests, &[0, 1, 2])?));
            guests.iter().filter_map(better).collect()
        };
        assert_eq!(moves(&guests), [(pid(7), 2)]);
        guests[0].1 = 2;
        // Two and one and one: one has to share.
        assert_eq!(moves(&guests), []);
        assert_eq!(less_crowded(pid(1), &guests, &[0, 1, 2]), None, "one that is kept nowhere");
    }

    #[test]
    fn a_place_is_one_processor() {
        let Some(home) = first() else {
            println!("skipped: this machine has one processor");
            return;
        };
        let mut sleeping = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_child(&sleeping);
        assert!(children().contains(&pid));
        assert_eq!(place(pid), None);
        sched_setaffinity(Some(pid), &home).unwrap();
        assert_eq!(place(pid).map(only), Some(home));
        sleeping.kill().unwrap();
        sleeping.wait().unwrap();
    }

    #[test]
    fn what_the_host_counts_is_read() {
        let allowed: Vec<usize> = vec![0];
        assert!(idle_times(&allowed)[0] > Duration::ZERO);
        assert!(is_share(Duration::from_millis(40), Duration::from_millis(100), 40));
        assert!(!is_share(Duration::from_millis(39), Duration::from_millis(100), 40));
    }
}
