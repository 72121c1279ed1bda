//! What a fio job costs per I/O: run with `cargo bench -p plumb-workload`.
//!
//! `generate` is the choice of direction, offset and length alone. `bare` drives
//! the block layer and a device of fixed latency from 32 plain tasks; `job` does
//! the same from one fio job at iodepth 32. Their difference is the workload's
//! own cost: generation, accounting, and the bookkeeping of I/Os in flight.

#![allow(clippy::unwrap_used)]

#[path = "../tests/common/mod.rs"]
mod common;

use block::{Bio, BioFlags, BioOp, Sector};
use common::{free_host, parse};
use ssd::{Completion, Device, Identity, NullDevice, PowerCut, Submission, VolatileWrite};
use trace::{Recorder, RequestId};
use units::Nanos;
use workload::fio::generate::{Generator, Region};
use workload::fio::start;

const IOS: u64 = 2_000_000;
const LATENCY: Nanos = Nanos::from_micros(80);

/// A device of fixed latency that keeps no contents.
struct Timing {
    identity: Identity,
    outstanding: std::collections::VecDeque<Completion>,
}

impl Timing {
    fn new() -> Self {
        let identity = NullDevice::new(1 << 31, 512, LATENCY).identity().clone();
        Self { identity: Identity { keeps_contents: false, ..identity }, outstanding: Default::default() }
    }
}

impl Device for Timing {
    fn identity(&self) -> &Identity {
        &self.identity
    }
    fn submit(&mut self, now: Nanos, submission: Submission) {
        let Submission { queue, cid, .. } = submission;
        self.outstanding.push_back(Completion {
            queue,
            cid,
            status: nvme::Status::SUCCESS,
            result: 0,
            data: None,
            at: now + LATENCY,
        });
    }
    fn next_event(&self) -> Option<Nanos> {
        self.outstanding.front().map(|completion| completion.at)
    }
    fn advance(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        while self.outstanding.front().is_some_and(|completion| completion.at <= now) {
            completions.extend(self.outstanding.pop_front());
        }
    }
    fn power_cut(&mut self, _now: Nanos) -> PowerCut {
        PowerCut::default()
    }
    fn survive(&mut self, _write: &VolatileWrite) {}
    fn set_recorder(&mut self, _recorder: Recorder) {}
    fn counters(&self) -> Vec<(String, u64)> {
        Vec::new()
    }
}

/// CPU time of this process so far: other work on the machine does not count.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

fn report(name: &str, work: impl FnOnce() -> u64) -> f64 {
    let begin = cpu_ns();
    let count = work();
    let ns = (cpu_ns() - begin) as f64 / count as f64;
    println!("{name:<40} {ns:8.1} CPU ns per I/O");
    ns
}

fn main() {
    for job in [
        "rw=randread",
        "rw=read",
        "rw=randrw\nrwmixread=70\nbssplit=4k/60:8k/40",
        "rw=randread\nrandom_distribution=zipf:1.2",
    ] {
        let file = parse(&format!("[a]\n{job}"));
        let mut generator = Generator::new(&file.jobs[0].options, Region { start: 0, bytes: 1 << 40 }, 1, "a/0");
        report(&format!("generate {}", job.replace('\n', " ")), || {
            let mut sum = 0;
            for _ in 0..IOS {
                let direction = generator.direction();
                sum += generator.next(direction).unwrap().offset & 1;
            }
            IOS + sum
        });
    }
    let bare = report("bare", || {
        let (mut executor, host) = free_host(Timing::new(), 1);
        for task in 0..32 {
            let disk = host.disk.clone();
            drop(host.sim.spawn(async move {
                for number in 0..IOS / 32 {
                    let sector = Sector((number * 32 + task) * 8 * 7919 % (1 << 30));
                    let (op, flags) = (BioOp::Read, BioFlags::SYNC);
                    disk.submit(
                        0,
                        Bio {
                            nsid: nvme::NamespaceId::FIRST,
                            op,
                            sector,
                            bytes: 4096,
                            flags,
                            data: None,
                            order: None,
                            request: RequestId(number),
                        },
                    )
                    .await;
                }
            }));
        }
        executor.run();
        IOS
    });
    let batches = |batch| format!("rw=randread\niodepth_batch={batch}\niodepth_batch_complete_max={batch}");
    for (name, options) in [
        ("job, batches of 1", batches(1)),
        ("job, batches of 32", batches(32)),
        ("job, sqthread_poll", "rw=randread\nsqthread_poll".to_owned()),
        ("job, zonemode=zbd reads", "rw=randread\nzonemode=zbd\nzonesize=1g\nread_beyond_wp".to_owned()),
        ("job, zonemode=zbd writes", "rw=write\nzonemode=zbd\nzonesize=1g".to_owned()),
    ] {
        let job = format!("[a]\nioengine=io_uring\niodepth=32\nnumber_ios={IOS}\ndirect=1\n{options}");
        let ns = report(name, || {
            let (mut executor, host) = free_host(Timing::new(), 1);
            let run = start(&host, &parse(&job)).unwrap();
            executor.run();
            run.finish()[0].ios()
        });
        println!("{:<40} {:8.1} CPU ns per I/O", "  of these the workload's own", ns - bare);
    }
}
