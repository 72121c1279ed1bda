//! A mounted file system, from the first request to the last.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use betrfs::{Operations, Timestamp};
use fuse::{Activity, FolderMount, Handler, Server, Watchdog, WatchdogProgram};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use units::Nanos;

use crate::failure::Failure;

/// How often what nobody has synced becomes durable.
const SYNC_EVERY: Duration = Duration::from_secs(5);
/// Entries of removed trees between which others have their turn.
const REAPED_AT_A_TIME: usize = 1_000;
/// Work that is owed to the store, between which changes have their turn.
const WORK_BYTES: u64 = 1 << 20;
/// How soon after requests it is looked whether more is owed, and how soon after none.
const WORK_EVERY: Duration = Duration::from_millis(2);
const IDLE_EVERY: Duration = Duration::from_millis(200);
/// How often the watchdog hears that requests are answered.
const BEAT_EVERY: Duration = Duration::from_secs(1);
/// How long requests may wait without one being answered: storage that takes longer has failed.
const STALL: Nanos = Nanos::from_secs(120);

/// What is served, and where.
pub struct Serving<'a> {
    /// Answers requests.
    pub handler: &'a dyn Handler,
    /// What becomes durable.
    pub operations: &'a dyn Operations,
    /// Does what changes owe ([`Operations::work`]).
    pub work: &'a (dyn Fn(u64) -> betrfs::Result<bool> + Sync),
    /// How much has been done for requests that take long: a number that goes on while anything is.
    pub progress: &'a (dyn Fn() -> u64 + Sync),
    /// Where it is mounted.
    pub mount: &'a FolderMount,
    /// Requests that are answered at a time.
    pub threads: usize,
}

/// The time.
pub fn now() -> Timestamp {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => Timestamp { seconds: since.as_secs().cast_signed(), nanoseconds: since.subsec_nanos() },
        Err(_) => Timestamp::default(),
    }
}

/// Serves until it is unmounted, by whomever; everything is durable then.
pub fn run(server: Server, serving: &Serving<'_>) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::Machine(error.to_string());
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
    let (activity, handle) = (server.activity(), signals.handle());
    let ended = AtomicBool::new(false);
    let watchdog = watchdog(serving.mount);
    let served = thread::scope(|scope| {
        scope.spawn(|| stop_at_signals(&mut signals, serving));
        let syncer = scope.spawn(|| sync_now_and_then(&activity, serving.operations, &ended));
        let worker = scope.spawn(|| work_behind(&activity, serving, &ended));
        let beater = watchdog.map(|watchdog| scope.spawn(|| beat(watchdog, &activity, serving.progress, &ended)));
        let served = server.run(serving.handler, serving.threads, &|line| eprintln!("{line}"));
        ended.store(true, Ordering::Relaxed);
        handle.close();
        syncer.thread().unpark();
        worker.thread().unpark();
        if let Some(beater) = beater {
            beater.thread().unpark();
        }
        served
    });
    // What is served ends as it ends; what was written is kept either way.
    let synced = serving.operations.syncfs();
    served.map_err(|error| {
        let _ = serving.mount.unmount(true);
        Failure::Machine(error.to_string())
    })?;
    synced.map_err(|error| Failure::Machine(format!("what was written last is not durable: {error}")))?;
    match activity.panics() {
        0 => Ok(()),
        panics => Err(Failure::Machine(format!("{panics} requests failed by faults of this program, see above"))),
    }
}

/// Unmounts at the first signal, or as soon as nobody uses it; at the second the process ends.
fn stop_at_signals(signals: &mut Signals, serving: &Serving<'_>) {
    let asked = AtomicU32::new(0);
    for _ in signals.forever() {
        let folder = serving.mount.folder().display();
        if asked.fetch_add(1, Ordering::Relaxed) > 0 {
            let synced = serving.operations.syncfs();
            eprintln!("{folder}: ended while in use; what was written is durable: {}", synced.is_ok());
            std::process::exit(i32::from(super::super::EXIT_INTERRUPTED));
        }
        match serving.mount.unmount(false) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => {
                eprintln!(
                    "{folder}: in use; nobody new gets in, and it ends with its last user. A second signal ends it now"
                );
                if let Err(error) = serving.mount.unmount(true) {
                    eprintln!("{folder}: {error}");
                }
            }
            Err(error) => eprintln!("{folder}: {error}"),
        }
    }
}

/// Makes durable what nobody has synced, as other file systems do.
fn sync_now_and_then(activity: &Activity, operations: &dyn Operations, ended: &AtomicBool) {
    let mut seen = 0;
    while !ended.load(Ordering::Relaxed) {
        thread::park_timeout(SYNC_EVERY);
        let answered = activity.answered();
        if answered != seen && !ended.load(Ordering::Relaxed) {
            seen = answered;
            if let Err(error) = operations.syncfs() {
                eprintln!("what was written is not durable: {error}");
            }
        }
    }
}

/// Does what changes owe, so that they need not: moving them down the store's trees, checkpoints, and taking apart what was removed
/// whole, also before an end of the server.
fn work_behind(activity: &Activity, serving: &Serving<'_>, ended: &AtomicBool) {
    let mut seen = 0;
    while !ended.load(Ordering::Relaxed) {
        let reap = |more| Ok(serving.operations.reap(REAPED_AT_A_TIME)? || more);
        match (serving.work)(WORK_BYTES).and_then(reap) {
            Ok(true) => continue,
            Ok(false) => {}
            Err(error) => {
                eprintln!("what is owed to the store is left to who changes something: {error}");
                return;
            }
        }
        let answered = activity.answered();
        thread::park_timeout(if answered == seen { IDLE_EVERY } else { WORK_EVERY });
        seen = answered;
    }
}

/// A process that fails all requests where this one is stuck. Only root can have one; a user can end the connection of his own
/// mount by fusermount3.
fn watchdog(mount: &FolderMount) -> Option<Watchdog> {
    let connection = mount.connection().ok()?;
    let program = std::env::current_exe().ok()?;
    let program = WatchdogProgram { program, arguments: vec!["fuse-watchdog".into()] };
    mount.is_by_root().then(|| Watchdog::start(&program, connection, STALL, "").ok()).flatten()
}

/// Tells the watchdog as long as requests are answered or worked for, or there are none: a copy of a large tree is one request.
fn beat(mut watchdog: Watchdog, activity: &Activity, progress: &dyn Fn() -> u64, ended: &AtomicBool) {
    let mut seen = (0, 0);
    while !ended.load(Ordering::Relaxed) {
        let now = (activity.answered(), progress());
        if now != seen || activity.under_way() == 0 {
            watchdog.beat();
        }
        seen = now;
        thread::park_timeout(BEAT_EVERY);
    }
}
