//! From a device to `/dev/loopN`.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;

use fuse::{Watchdog, WatchdogProgram};
use ssd::{Device, Identity};
use units::Nanos;

use super::calibrate::{self, Measured};
use super::error::LoopError;
use super::front_end::{LoopFrontEnd, Notes};
use super::leftovers;
use super::loop_device::LoopNumber;
use super::memory;
use super::workload_group::WorkloadGroup;
use crate::calibration::Calibration;
use crate::error::ServeError;
use crate::run::{ServeOptions, ServeReport, serve};
use crate::stop::Stop;

/// How to serve as a loop device, beyond what all front-ends share.
#[derive(Clone, Debug)]
pub struct LoopOptions {
    /// What `losetup` shows as the backing file, such as the profile's name, with the process's number behind it.
    pub name: String,
    /// Bytes of memory to set aside and lock for contents. Without it, memory for
    /// contents is taken (and locked) as blocks are first written.
    pub prefault_bytes: u64,
    /// Whether contents are in this process's memory and not in an image.
    pub contents_in_memory: bool,
    /// What looks after the connection in a process of its own; without one, a
    /// server that hangs leaves its clients hanging until somebody writes to
    /// `/sys/fs/fuse/connections/N/abort`.
    pub watchdog: Option<WatchdogProgram>,
    /// How long requests may wait without any sign of life from the server before
    /// the watchdog fails them.
    pub stall: Nanos,
    /// Whether requests come through an io_uring where the kernel can do that (Linux
    /// 6.14): less work for each. What the kernel has put into the ring waits for
    /// this process even if the connection is aborted (`fuse_uring_send_in_task` of
    /// fs/fuse/dev_uring.c): a watchdog kills the process where it is stopped or stuck.
    pub io_uring: bool,
}

impl Default for LoopOptions {
    /// Named `disk`; contents in memory, not prefaulted; no watchdog, since that
    /// is a program of the caller's; a stall is 30 s.
    fn default() -> Self {
        Self {
            name: "disk".to_owned(),
            prefault_bytes: 0,
            contents_in_memory: true,
            watchdog: None,
            stall: Nanos::from_secs(30),
            io_uring: false,
        }
    }
}

/// A server that can have what it needs.
pub struct Server {
    options: LoopOptions,
}

impl Server {
    /// Looks whether FUSE and loop devices are available, before anything is built
    /// for them.
    ///
    /// # Errors
    ///
    /// When `/dev/fuse` or `/dev/loop-control` is missing or may not be opened.
    pub fn new(options: LoopOptions) -> Result<Self, LoopError> {
        for (path, remedy) in
            [("/dev/fuse", "`modprobe fuse` may bring it"), ("/dev/loop-control", "`modprobe loop` may bring it")]
        {
            let path = Path::new(path);
            match OpenOptions::new().read(true).write(true).open(path) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Err(LoopError::Missing { path: path.to_owned(), remedy });
                }
                Err(source) => return Err(LoopError::Refused { path: path.to_owned(), source }),
            }
        }
        Ok(Self { options })
    }

    /// Serves `device` until somebody asks through `stop` and nobody uses the
    /// loop device any more; asked twice, at once. The loop device is detached
    /// then, and the device flushed.
    ///
    /// This locks the whole process's memory and exempts it from the
    /// out-of-memory killer.
    ///
    /// # Errors
    ///
    /// When the device cannot be a loop device, the machine cannot give one, the
    /// loop itself fails, or the device fails its last flush.
    pub fn run(self, device: Box<dyn Device>, options: &ServeOptions, stop: &Stop) -> Result<ServeReport, ServeError> {
        let Self { options: own } = self;
        let log = &*options.log;
        check(device.identity(), log)?;
        protect(device.identity(), &own, log)?;
        for line in leftovers::clear() {
            log(&line);
        }
        let label = leftovers::label();
        let group = WorkloadGroup::prepare();
        let lba_bytes = device.identity().lba_bytes;
        let calibration = if options.calibrate {
            let Measured { calibration, flush_stall } =
                calibrate::measure(lba_bytes, options.spin, &label, own.io_uring)?;
            tell_of_stalls(&group, flush_stall, log);
            calibration
        } else {
            Calibration::default()
        };
        let notes = Said { log, calibration, group: &group };
        // mkfs.btrfs takes two loop devices whose files have one path for the same, and refuses one while the other is mounted.
        let name = format!("{}-{}", own.name, std::process::id());
        let mut front_end =
            LoopFrontEnd::new(device.identity(), &name, options.read_only, label.clone(), own.io_uring, &notes)?;
        if let Some(program) = &own.watchdog {
            let watchdog = Watchdog::start(program, front_end.connection(), own.stall, &label);
            let watchdog =
                watchdog.map_err(|source| LoopError::Watchdog { program: program.program.clone(), source })?;
            front_end.set_watchdog(watchdog);
        }
        serve(front_end, device, options, calibration, None, stop)
    }
}

/// What the operator is told as the device comes and goes.
struct Said<'a> {
    log: &'a dyn Fn(&str),
    calibration: Calibration,
    group: &'a WorkloadGroup,
}

impl Notes for Said<'_> {
    fn ready(&self, device: LoopNumber, through_ring: bool) {
        let way = if through_ring { "an io_uring" } else { "/dev/fuse" };
        let device = device.path();
        (self.log)(&format!("ready at {}; {}; requests come through {way}", device.display(), self.calibration));
        if let Some(line) = self.group.enter() {
            (self.log)(&format!("start workloads from a shell in a cgroup of its own: {line}"));
        }
    }

    fn line(&self, line: &str) {
        (self.log)(line);
    }
}

fn check(identity: &Identity, log: &dyn Fn(&str)) -> Result<(), LoopError> {
    if identity.zoned.is_some() {
        return Err(LoopError::Zoned { model: identity.model.clone() });
    }
    let (lba_bytes, page_bytes) = (identity.lba_bytes, rustix::param::page_size() as u32);
    if !lba_bytes.is_power_of_two() || !(512..=page_bytes).contains(&lba_bytes) {
        return Err(LoopError::BlockSize { lba_bytes, page_bytes });
    }
    if identity.namespace_blocks.len() > 1 {
        log("note: the device has several namespaces; the loop device is namespace 1");
    }
    if identity.rotational {
        log(
            "note: loop devices do not tell that positioning dominates; `echo 1 > /sys/block/loopN/queue/rotational` does",
        );
    }
    Ok(())
}

/// Makes the process fit for being the kernel's disk.
fn protect(identity: &Identity, own: &LoopOptions, log: &dyn Fn(&str)) -> Result<(), LoopError> {
    let capacity_bytes = identity.namespace_blocks.first().copied().unwrap_or(0) * u64::from(identity.lba_bytes);
    let bounded = !own.contents_in_memory || !identity.keeps_contents || own.prefault_bytes >= capacity_bytes;
    match crate::memory::limit() {
        Some(limit) if !bounded => {
            let crate::memory::Limit { group, outside, limit_bytes } = limit;
            return Err(LoopError::MemoryLimited { group, outside, limit_bytes, needed_bytes: capacity_bytes });
        }
        Some(limit) => log(&format!(
            "warning: this process is in the memory cgroup {} (limit {} bytes); when that runs full, so may the device's \
             cache of writes: start the server outside",
            limit.group.display(),
            limit.limit_bytes
        )),
        None => {}
    }
    for warning in memory::protect() {
        log(&warning);
    }
    memory::reserve(own.prefault_bytes)?;
    if !bounded && crate::memory::available_bytes().is_some_and(|available| capacity_bytes > available) {
        log(&format!(
            "warning: contents are kept in memory, and the device ({capacity_bytes} bytes) is larger than what is free; \
             use --image, a smaller device, or --memory to say how much of it may be taken"
        ));
    }
    Ok(())
}

/// Says what flushes do to others, as measured from this process's cgroup.
fn tell_of_stalls(group: &WorkloadGroup, flush_stall: Option<Nanos>, log: &dyn Fn(&str)) {
    let Some(waited) = flush_stall else { return };
    let remedy = match group.enter() {
        Some(line) => format!("a shell that has run `{line}`"),
        None => match group {
            WorkloadGroup::Unavailable(why) => format!("another blkio cgroup, but {why}"),
            WorkloadGroup::Already | WorkloadGroup::Made(_) => "another blkio cgroup".to_owned(),
        },
    };
    log(&format!(
        "warning: flushes hold up every other request of processes in this cgroup (a read waited {waited} for one); \
         start workloads from {remedy}"
    ));
}
