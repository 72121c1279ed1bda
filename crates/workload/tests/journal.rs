//! The journal at the block layer: which commands an fsync comes to in each way to commit, who waits for what, and what becomes of
//! several tasks, a full log, failures and small devices.

use std::cell::RefCell;
use std::num::{NonZeroU16, NonZeroU32};
use std::rc::Rc;

use block::{BlockDevice, EpochKind, Ordering, QueueConfig, StreamPolicyKind, StreamsConfig};
use nvme::{Command, Status, WriteCommand};
use sim::Executor;
use sim::cpu::{CpuConfig, Cpus};
use ssd::config::OrderKind;
use ssd::faults::{Effect, Fault, FaultPlan, FaultyDevice};
use ssd::{Device, Ssd, SsdConfig, Submission, Wrapper};
use trace::Recorder;
use units::{ByteSize, Nanos};
use workload::journal::{CommitMode, Journal, JournalError, JournalOptions, JournalReport, SyncCall};
use workload::{Host, IoCosts};

/// The commands that reach the device.
struct Seen {
    device: Box<dyn Device>,
    commands: Rc<RefCell<Vec<Command>>>,
}

impl Wrapper for Seen {
    fn inner(&self) -> &dyn Device {
        self.device.as_ref()
    }

    fn inner_mut(&mut self) -> &mut dyn Device {
        self.device.as_mut()
    }

    fn submit(&mut self, now: Nanos, submission: Submission) {
        self.commands.borrow_mut().push(submission.command.clone());
        self.device.submit(now, submission);
    }
}

struct Setup {
    options: JournalOptions,
    ordering: Ordering,
    streams: StreamsConfig,
    order: OrderKind,
    is_protected: bool,
    namespace: u64,
    faults: FaultPlan,
}

/// What an experiment calls a mode.
fn setup(commit: CommitMode, ordering: Ordering) -> Setup {
    let needs_order = matches!(ordering, Ordering::Streams | Ordering::BarrierSingleQueue);
    Setup {
        options: JournalOptions { commit, calls: number(50), ..JournalOptions::default() },
        ordering,
        streams: StreamsConfig { policy: StreamPolicyKind::Task, epochs: EpochKind::Counted },
        order: if needs_order { OrderKind::Streams } else { OrderKind::None },
        is_protected: false,
        namespace: 1 << 30,
        faults: FaultPlan::default(),
    }
}

fn streams() -> Setup {
    setup(CommitMode::Ordered, Ordering::Streams)
}

fn number(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap()
}

impl Setup {
    fn host(&self) -> (Executor, Host, Rc<RefCell<Vec<Command>>>) {
        let executor = Executor::new_virtual();
        let mut ssd = SsdConfig::reference();
        ssd.namespaces = vec![ByteSize(self.namespace)];
        ssd.order = self.order;
        ssd.buffer.power_loss_protected = self.is_protected;
        let commands = Rc::new(RefCell::new(Vec::new()));
        let device = FaultyDevice::new(Box::new(Ssd::new(&ssd).unwrap()), self.faults.clone());
        let seen = Seen { device: Box::new(device), commands: commands.clone() };
        let cores = NonZeroU16::new(4).unwrap();
        let queue =
            QueueConfig { cpus: cores, ordering: self.ordering, streams: self.streams, ..QueueConfig::default() };
        let sim = executor.handle();
        let disk = BlockDevice::new(&sim, Box::new(seen), queue, Recorder::default());
        let cpus = Cpus::new(&sim, CpuConfig { cores, ..CpuConfig::default() }, Recorder::default());
        let host = Host { sim, disk, cpus, costs: IoCosts::default(), seed: 1, recorder: Recorder::default() };
        (executor, host, commands)
    }

    fn run(&self) -> (JournalReport, Counts) {
        let (mut executor, host, commands) = self.host();
        let journal = Journal::start(&host, &self.options).unwrap();
        assert_eq!(executor.run(), 0, "tasks wait for ever");
        let report = journal.finish();
        assert_eq!(report.unfinished, 0);
        let counts = Counts::of(&commands.borrow());
        (report, counts)
    }
}

/// Commands by class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Counts {
    writes: u64,
    fua: u64,
    flushes: u64,
    ordered: u64,
}

impl Counts {
    fn of(commands: &[Command]) -> Self {
        let mut counts = Self::default();
        for command in commands {
            match command {
                Command::Write(WriteCommand { fua, order, .. }) => {
                    counts.writes += u64::from(!*fua);
                    counts.fua += u64::from(*fua);
                    counts.ordered += u64::from(order.is_ordered());
                }
                Command::Flush { .. } => counts.flushes += 1,
                _ => {}
            }
        }
        counts
    }
}

#[test]
fn the_commands_of_an_fsync() {
    let counts = |writes, fua, flushes, ordered| Counts { writes, fua, flushes, ordered };
    for (setup, each) in [
        (setup(CommitMode::Stock, Ordering::Flush), counts(2, 1, 1, 0)),
        (setup(CommitMode::Stock, Ordering::FlushNoFua), counts(3, 0, 2, 0)),
        (setup(CommitMode::AsyncCommit, Ordering::Flush), counts(3, 0, 1, 0)),
        (setup(CommitMode::FastCommit, Ordering::Flush), counts(1, 1, 1, 0)),
        (setup(CommitMode::OrderedDual, Ordering::BarrierSingleQueue), counts(3, 0, 1, 3)),
        (streams(), counts(3, 0, 1, 3)),
    ] {
        let (report, found) = setup.run();
        let calls = report.calls.count();
        assert_eq!((calls, report.commits), (50, 50));
        let wanted = counts(each.writes * calls, each.fua * calls, each.flushes * calls, each.ordered * calls);
        assert_eq!(found, wanted, "{:?} {:?}", setup.options.commit, setup.ordering);
    }
    // A protected cache is never flushed, whoever asks.
    for setup in [setup(CommitMode::Stock, Ordering::Flush), streams()] {
        let found = Setup { is_protected: true, ..setup }.run().1;
        assert_eq!((found.writes, found.fua, found.flushes), (150, 0, 0));
    }
}

#[test]
fn without_order_on_the_device_it_is_kept_by_waiting() {
    let (report, found) = Setup { order: OrderKind::None, ..streams() }.run();
    assert_eq!(report.ordering.fallback, Some("the device keeps no order"));
    assert_eq!((found.writes, found.fua, found.ordered), (150, 0, 0));
    // Data, the journal's blocks and the record: a flush before those that open an epoch, and the one that ends the commit.
    assert!(found.flushes > 100, "{found:?}");
    assert_eq!(report.order.by_waiting, 150);
}

#[test]
fn order_is_faster_than_waiting() {
    let mean = |setup: &Setup| setup.run().0.calls.mean_ns();
    let stock = mean(&setup(CommitMode::Stock, Ordering::Flush));
    for policy in [StreamPolicyKind::Task, StreamPolicyKind::Cgroup, StreamPolicyKind::One] {
        for epochs in [EpochKind::Pinned, EpochKind::Counted] {
            let streams = Setup { streams: StreamsConfig { policy, epochs }, ..streams() };
            assert!(mean(&streams) < stock, "{policy:?} {epochs:?}");
        }
    }
    let call = |call| {
        let mut setup = streams();
        setup.options.call = call;
        mean(&setup)
    };
    assert!(call(SyncCall::Fbarrier) < call(SyncCall::Fsync));
    assert!(call(SyncCall::Fdatabarrier) < call(SyncCall::Fbarrier));
}

#[test]
fn tasks_are_committed_together() {
    for (commit, ordering) in [
        (CommitMode::Stock, Ordering::Flush),
        (CommitMode::AsyncCommit, Ordering::Flush),
        (CommitMode::FastCommit, Ordering::Flush),
        (CommitMode::Ordered, Ordering::Streams),
        (CommitMode::OrderedDual, Ordering::BarrierSingleQueue),
    ] {
        let mut setup = setup(commit, ordering);
        setup.options.tasks = number(16);
        let (report, found) = setup.run();
        assert_eq!(report.calls.count(), 800);
        assert!(report.commits >= 50, "{commit:?}: {} commits", report.commits);
        // Two threads do not wait for each other: they commit more often, and flush once for several.
        assert!(
            found.flushes < 500 && found.flushes <= report.commits,
            "{commit:?}: {found:?}, {} commits",
            report.commits
        );
    }
}

#[test]
fn tasks_that_do_not_wait_fill_no_transaction_with_their_inodes() {
    let mut setup = streams();
    setup.options = JournalOptions {
        call: SyncCall::Fdatabarrier,
        tasks: number(2),
        calls: number(2000),
        // Less than what is called before somebody commits.
        journal_blocks: number(64),
        ..setup.options
    };
    let (report, _) = setup.run();
    assert_eq!(report.calls.count(), 4000);
    assert!(report.commits > 0);
}

#[test]
fn a_full_log_is_written_home() {
    for (commit, ordering) in [(CommitMode::Stock, Ordering::Flush), (CommitMode::Ordered, Ordering::Streams)] {
        let mut setup = setup(commit, ordering);
        setup.options.journal_blocks = number(64);
        let (report, found) = setup.run();
        // Four commits of ten blocks fit in three quarters of the log.
        assert_eq!(report.checkpoints, 12, "{commit:?}");
        let fua = if commit == CommitMode::Stock { 50 } else { 0 };
        assert_eq!((found.fua, found.flushes), (fua + 12, 50 + 12), "{commit:?}");
    }
    let mut setup = setup(CommitMode::FastCommit, Ordering::Flush);
    setup.options.calls = number(600);
    let (report, _) = setup.run();
    assert_eq!((report.commits, report.fast_commits), (600, 598), "a full commit for each 256 fast ones");
}

#[test]
fn the_same_run_is_the_same() {
    let mut setup = streams();
    setup.options.tasks = number(8);
    let (first, second) = (setup.run(), setup.run());
    assert_eq!(first.1, second.1);
    assert_eq!((first.0.runtime, first.0.calls.mean_ns()), (second.0.runtime, second.0.calls.mean_ns()));
}

#[test]
fn a_failure_is_said() {
    for base in [setup(CommitMode::Stock, Ordering::Flush), streams()] {
        let fault = Fault { nth: 20, times: Some(1), ..Fault::new(Effect::error(Status::WRITE_FAULT)) };
        base.faults.inject(fault).unwrap();
        let (report, _) = base.run();
        assert!(report.failures >= 1);
        assert!(report.first_failure.is_some());
        assert_eq!(report.calls.count(), 50);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let refused = |change: fn(&mut Setup)| {
        let mut setup = setup(CommitMode::Stock, Ordering::Flush);
        change(&mut setup);
        let (_executor, host, _) = setup.host();
        Journal::start(&host, &setup.options).err().unwrap()
    };
    let small = refused(|setup| setup.options.tasks = number(100_000));
    assert!(matches!(small, JournalError::JournalTooSmall { tasks: 100_000, .. }), "{small}");
    let small = refused(|setup| (setup.options.tasks, setup.options.journal_blocks) = (number(1000), number(300_000)));
    assert!(matches!(small, JournalError::TooSmall { .. }), "{small}");
    let fast = refused(|setup| {
        (setup.options.commit, setup.options.journal_blocks) = (CommitMode::FastCommit, number(256));
    });
    assert!(matches!(fast, JournalError::JournalTooSmall { .. }), "{fast}");
    let large = refused(|setup| setup.options.data_blocks = number(1025));
    assert!(large.to_string().contains("1025"), "{large}");
}
