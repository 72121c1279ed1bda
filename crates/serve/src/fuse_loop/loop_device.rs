//! Loop devices: the block device in front of the FUSE file.
//!
//! Numbers and layouts: Linux `include/uapi/linux/loop.h`.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

const LOOP_CLR_FD: libc::Ioctl = 0x4c01;
const LOOP_GET_STATUS64: libc::Ioctl = 0x4c05;
const LOOP_CONFIGURE: libc::Ioctl = 0x4c0a;
const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4c82;

const LO_FLAGS_READ_ONLY: u32 = 1;
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// Other programs take loop devices too: how often the next free one is asked for.
const ATTEMPTS: usize = 64;

/// `struct loop_info64`.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy)]
#[repr(C)]
struct Info {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

impl Info {
    /// The label it was attached with, empty where none was given.
    fn label(&self) -> String {
        let name = &self.file_name;
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        String::from_utf8_lossy(&name[..end]).into_owned()
    }
}

/// `struct loop_config`.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy)]
#[repr(C)]
struct Config {
    fd: u32,
    block_size: u32,
    info: Info,
    reserved: [u64; 8],
}

/// See [`LoopNumber::complete_at`].
#[derive(Clone, Copy)]
enum Completion {
    Answerer,
    Sender,
}

impl Completion {
    fn value(self) -> &'static str {
        match self {
            Self::Answerer => "0",
            Self::Sender => "1",
        }
    }
}

/// `/dev/loopN`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LoopNumber(pub(crate) u32);

impl LoopNumber {
    pub(crate) fn path(self) -> PathBuf {
        PathBuf::from(format!("/dev/loop{}", self.0))
    }

    fn open(self, write: bool) -> io::Result<File> {
        OpenOptions::new().read(true).write(write).open(self.path())
    }

    /// Holds the device open if what is attached to it has a label that is `wanted`: it is the same one until it is let
    /// go, whoever detaches it meanwhile. As detached ([`was_detached`]) count no device and one of another label.
    pub(crate) fn hold(self, wanted: impl Fn(&str) -> bool) -> io::Result<Held> {
        let held = Held { number: self, device: self.open(false)? };
        if wanted(&held.info()?.label()) { Ok(held) } else { Err(io::Error::from_raw_os_error(libc::ENXIO)) }
    }

    /// Detaches what has this label: see [`hold`](Self::hold) and [`Held::detach`].
    pub(crate) fn detach(self, label: &str) -> io::Result<()> {
        self.hold(|found| found == label)?.detach()
    }

    /// Where requests are completed (`rq_affinity`, Documentation/ABI/stable/sysfs-block):
    /// on the processor that answers, or on that which sent them, by an interrupt from
    /// one to the other, which on a virtual machine costs as much as the answer.
    fn complete_at(self, place: Completion) {
        let attribute = format!("/sys/block/loop{}/queue/rq_affinity", self.0);
        // Slower without, no more: a container may not write there.
        let _ = fs::write(attribute, place.value());
    }

    /// Attaches a file to this device and holds it.
    fn attach(self, file: &File, block_bytes: u32, read_only: bool, label: &str) -> io::Result<Held> {
        let device = self.open(!read_only)?;
        let mut config = Config::new_zeroed();
        config.fd = file.as_fd().as_raw_fd() as u32;
        config.block_size = block_bytes;
        config.info.flags = LO_FLAGS_DIRECT_IO | if read_only { LO_FLAGS_READ_ONLY } else { 0 };
        // The last byte stays zero.
        for (room, byte) in config.info.file_name.iter_mut().take(63).zip(label.bytes()) {
            *room = byte;
        }
        // SAFETY: LOOP_CONFIGURE reads one loop_config, whose layout Config has;
        // the descriptor in it is open.
        let result = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const config) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(Held { number: self, device }) }
    }
}

/// A loop device that something is attached to, held open: its number does not become another's meanwhile.
pub(crate) struct Held {
    number: LoopNumber,
    device: File,
}

impl Held {
    fn info(&self) -> io::Result<Info> {
        let mut info = Info::new_zeroed();
        // SAFETY: LOOP_GET_STATUS64 writes one loop_info64, whose layout Info has.
        let result = unsafe { libc::ioctl(self.device.as_raw_fd(), LOOP_GET_STATUS64, &raw mut info) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(info) }
    }

    /// Detaches it from its file: at once where nobody else has it open, or else when
    /// the last who has closes it.
    pub(crate) fn detach(self) -> io::Result<()> {
        // The number outlives the disk, and its next user gets what the kernel sets at first.
        self.number.complete_at(Completion::Sender);
        // SAFETY: LOOP_CLR_FD takes no argument.
        let result = unsafe { libc::ioctl(self.device.as_raw_fd(), LOOP_CLR_FD) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// Whether a device could not be held or detached because somebody else had detached it already.
pub(crate) fn was_detached(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENXIO)
}

/// Attaches `file` to loop device `wanted` if it is free, or else to the next
/// that is. Blocks of `block_bytes`; direct I/O. A `label` of at most 63 bytes
/// tells it from others.
///
/// The kernel looks at the file meanwhile: whoever serves it must answer.
pub(crate) fn attach(
    file: &File,
    wanted: Option<LoopNumber>,
    block_bytes: u32,
    read_only: bool,
    label: &str,
) -> io::Result<LoopNumber> {
    let mut number = wanted;
    for _ in 0..ATTEMPTS {
        let candidate = match number.take() {
            Some(number) => number,
            None => free()?,
        };
        match candidate.attach(file, block_bytes, read_only, label) {
            Ok(held) => {
                // Direct I/O is a wish: the driver falls back to the page cache,
                // in front of which no latency would be the device's.
                if held.info()?.flags & LO_FLAGS_DIRECT_IO == 0 {
                    held.detach()?;
                    return Err(io::Error::new(
                        io::ErrorKind::Unsupported,
                        "the kernel refuses direct I/O on the loop device",
                    ));
                }
                candidate.complete_at(Completion::Answerer);
                return Ok(candidate);
            }
            // Somebody was faster, or has the wanted one open for himself, or has attached and detached it since it
            // was said to be free: it cannot be opened while it is being cleared (`lo_open` in drivers/block/loop.c).
            Err(error) if matches!(error.raw_os_error(), Some(libc::EBUSY | libc::ENXIO)) => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::from_raw_os_error(libc::EBUSY))
}

/// A device that nothing is attached to; the kernel makes one where there is none.
fn free() -> io::Result<LoopNumber> {
    let control = OpenOptions::new().read(true).write(true).open("/dev/loop-control")?;
    // SAFETY: LOOP_CTL_GET_FREE takes no argument and returns a number.
    let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
    u32::try_from(number).map(LoopNumber).map_err(|_| io::Error::last_os_error())
}

/// The loop devices that something is attached to.
pub(crate) fn attached() -> Vec<LoopNumber> {
    let Ok(entries) = fs::read_dir("/sys/block") else { return Vec::new() };
    let mut numbers: Vec<u32> = entries
        .flatten()
        .filter(|entry| entry.path().join("loop/backing_file").exists())
        .filter_map(|entry| entry.file_name().to_str()?.strip_prefix("loop")?.parse().ok())
        .collect();
    numbers.sort_unstable();
    numbers.into_iter().map(LoopNumber).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes that the kernel's header gives.
    #[test]
    fn sizes() {
        assert_eq!(size_of::<Info>(), 232);
        assert_eq!(size_of::<Config>(), 304);
    }

    /// Who looks at what a killed server left, and detaches it, is not the only one who does.
    #[test]
    fn what_is_held_is_detached_and_nothing_that_comes_after_it() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        let attached = |label: &str| {
            (0..ATTEMPTS).find_map(|_| free().and_then(|number| number.attach(&file, 512, false, label)).ok())
        };
        let label = format!("held by a test {}", std::process::id());
        let Some(first) = attached(&label) else {
            println!("skipped: no loop device can be attached here");
            return;
        };
        let number = first.number;
        assert!(was_detached(&number.hold(|found| found != label).err().unwrap()));
        let (held, other) =
            (number.hold(|found| found == label).unwrap(), number.hold(|found| found == label).unwrap());
        drop(first);
        // It stays what it is until the last of both lets go: its number is given to nobody.
        other.detach().unwrap();
        assert_eq!(held.info().unwrap().label(), label);
        assert!(number.attach(&file, 512, false, "another").is_err());
        held.detach().unwrap();
        let gone = (0..1000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            number.hold(|found| found == label).is_err()
        });
        assert!(gone, "{number:?} stays attached");
        // Where another has its number, it is not taken for the one that was looked for.
        if let Some(second) = attached("another") {
            assert!(was_detached(&second.number.hold(|found| found == label).err().unwrap()));
            second.detach().unwrap();
        }
    }
}
