//! Switches between two that wait for each other.

use std::io::{Read, Write, pipe};
use std::thread;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::{Fixture, Job, time};

pub(super) const PING_PONG: Job = Job {
    name: "ping-pong",
    operation: "a byte through a pipe to a thread of the same processor that waits for it",
    operations: 400,
    round: ping_pong,
};

/// An operation is one way.
fn ping_pong(_: &Fixture, operations: u32) -> std::io::Result<Duration> {
    on_one_processor(|| exchange(operations / 2))
}

/// `work` on one processor, with the threads that it starts.
pub(super) fn on_one_processor<T>(work: impl FnOnce() -> std::io::Result<T>) -> std::io::Result<T> {
    let before = sched_getaffinity(None)?;
    pin(&before)?;
    let done = work();
    sched_setaffinity(None, &before)?;
    done
}

fn exchange(rounds: u32) -> std::io::Result<Duration> {
    let (mut here, mut to_here) = pipe()?;
    let (mut there, mut to_there) = pipe()?;
    // It has this thread's processor.
    let other = thread::spawn(move || -> std::io::Result<()> {
        let mut byte = [0];
        // Ends where the other end is dropped, too.
        for _ in 0..rounds {
            there.read_exact(&mut byte)?;
            to_here.write_all(&byte)?;
        }
        Ok(())
    });
    let elapsed = time(|| {
        let mut byte = [1];
        for _ in 0..rounds {
            to_there.write_all(&byte)?;
            here.read_exact(&mut byte)?;
        }
        Ok(())
    });
    drop((to_there, here));
    other.join().map_err(|_| std::io::Error::other("the other thread panicked"))??;
    elapsed
}

/// To the first of the processors that it may use.
fn pin(allowed: &CpuSet) -> std::io::Result<()> {
    let first = (0..CpuSet::MAX_CPU).find(|processor| allowed.is_set(*processor)).unwrap_or(0);
    let mut one = CpuSet::new();
    one.set(first);
    Ok(sched_setaffinity(None, &one)?)
}
