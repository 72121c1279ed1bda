//! The launcher's side of the table: memory of its own that programs under it can open.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

use crate::PrefetcherError;
use crate::executor::Report;
use crate::settings::Settings;
use crate::shared::{MAGIC, TABLE_BYTES, Table};

/// The table's name among a launcher's descriptors.
const NAME: &str = "plumb-prefetch";

/// Bytes a second and nanoseconds of an SSD on SATA, until the first pass has measured: a faster device is taken for slower by both, and
/// their product is what counts.
const BEFORE_MEASURED: (u64, u64) = (500_000_000, 100_000);

/// The table, mapped for as long as the launcher runs.
pub struct Shared {
    table: &'static Table,
    memory: OwnedFd,
    key: u64,
}

impl Shared {
    /// Makes the table. Its memory belongs to the user alone, like everything below `/proc/PID/fd`.
    pub fn make(settings: &Settings, records: bool) -> Result<Self, PrefetcherError> {
        let failed = PrefetcherError::kernel::<rustix::io::Errno>;
        let memory = rustix::fs::memfd_create(NAME, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
            .map_err(failed("make shared memory"))?;
        rustix::fs::fchmod(&memory, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)
            .map_err(failed("keep shared memory from others"))?;
        rustix::fs::ftruncate(&memory, TABLE_BYTES as u64).map_err(failed("make room in shared memory"))?;
        // A program that shortened it would end everybody who looks at the rest.
        rustix::fs::fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
            .map_err(failed("seal shared memory"))?;
        let table = map(&memory).map_err(failed("map shared memory"))?;
        let mut key = [0; 8];
        rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty()).map_err(failed("draw a number"))?;
        let key = u64::from_le_bytes(key);
        let header = &table.header;
        header.bytes.store(TABLE_BYTES as u64, Ordering::Relaxed);
        header.key.store(key, Ordering::Relaxed);
        header.follow.store(settings.mode.follows().into(), Ordering::Relaxed);
        header.whole_at_open.store(settings.mode.loads_whole().into(), Ordering::Relaxed);
        header.records.store(records.into(), Ordering::Relaxed);
        header.passes.store(settings.mode.passes().into(), Ordering::Relaxed);
        header.drop_advice.store(settings.mode.drops_advice().into(), Ordering::Relaxed);
        header.min_file_bytes.store(settings.min_file.0, Ordering::Relaxed);
        header
            .min_map_bytes
            .store(if settings.mode.loads_maps() { settings.min_map.0 } else { u64::MAX }, Ordering::Relaxed);
        let (bandwidth, latency) = BEFORE_MEASURED;
        header.bandwidth_bytes_per_second.store(bandwidth, Ordering::Relaxed);
        header.latency_ns.store(latency, Ordering::Relaxed);
        header.magic.store(MAGIC, Ordering::Release);
        Ok(Self { table, memory, key })
    }

    /// That of a launcher which runs, if it has one that this user may look at.
    fn of(process: u32) -> Option<&'static Table> {
        let wanted = format!("/memfd:{NAME} (deleted)");
        let is_it = |path: &PathBuf| std::fs::read_link(path).is_ok_and(|name| name.as_os_str() == wanted.as_str());
        let path =
            std::fs::read_dir(format!("/proc/{process}/fd")).ok()?.flatten().map(|entry| entry.path()).find(is_it)?;
        let memory = std::fs::File::options().read(true).write(true).open(path).ok()?;
        let has_size = memory.metadata().is_ok_and(|status| status.len() == TABLE_BYTES as u64);
        let table = has_size.then(|| map(&memory.into()).ok()).flatten()?;
        (table.header.magic.load(Ordering::Acquire) == MAGIC).then_some(table)
    }

    /// The table.
    pub fn table(&self) -> &'static Table {
        self.table
    }

    /// What a program has in its environment to find it.
    pub fn environment(&self) -> String {
        format!("/proc/{}/fd/{}:{:x}", std::process::id(), self.memory.as_raw_fd(), self.key)
    }
}

/// Maps a table's memory, for as long as this process runs.
fn map(memory: &OwnedFd) -> rustix::io::Result<&'static Table> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at a place of the kernel's choice overlaps nothing.
    let at = unsafe { rustix::mm::mmap(std::ptr::null_mut(), TABLE_BYTES, access, MapFlags::SHARED, memory, 0) }?;
    // SAFETY: of the table's size, on a page, never unmapped, of a file that cannot shrink; any bits are a table.
    Ok(unsafe { &*at.cast::<Table>() })
}

/// What runs have come to so far, by the number of their launcher: those that this user may look at.
pub fn running() -> Vec<(u32, Report)> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut numbers: Vec<u32> = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    let of = |number: u32| Some((number, Report::of(Shared::of(number)?, false)));
    numbers.into_iter().filter_map(of).collect()
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Programs that go on have nobody left to ask.
        self.table.header.over.store(1, Ordering::Relaxed);
    }
}
