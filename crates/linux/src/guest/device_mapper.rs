//! Device mapper: block devices over others (`Documentation/admin-guide/device-mapper`, `include/uapi/linux/dm-ioctl.h`).

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::time::Duration;

use super::error::{GuestError, attempt};

const CONTROL: &str = "/dev/mapper/control";
/// `struct dm_ioctl`.
const HEADER_BYTES: usize = 312;
/// `struct dm_target_spec`.
const TARGET_BYTES: usize = 40;
/// Enough for one target and its words.
const REQUEST_BYTES: usize = HEADER_BYTES + TARGET_BYTES + 512;
/// `DM_IOCTL` commands: `_IOWR(0xfd, n, struct dm_ioctl)`.
const COMMAND: libc::c_ulong = 0xc138_fd00;
const CREATE: libc::c_ulong = COMMAND | 3;
const REMOVE: libc::c_ulong = COMMAND | 4;
/// Without `DM_SUSPEND_FLAG` it resumes.
const RESUME: libc::c_ulong = COMMAND | 6;
const LOAD: libc::c_ulong = COMMAND | 9;
/// How often a device that is still in use is tried to be removed, a virtual millisecond apart.
const TRIES: u32 = 200;

/// The means of making devices.
pub(super) struct DeviceMapper {
    control: File,
}

/// A device of one target.
pub(super) struct Mapped {
    name: &'static str,
    /// Its node.
    pub(super) node: PathBuf,
}

impl DeviceMapper {
    pub(super) fn open() -> Result<Self, GuestError> {
        let opened = File::options().read(true).write(true).open(CONTROL);
        let control = attempt(opened, || "cannot use device mapper: is CONFIG_BLK_DEV_DM in the kernel?".to_owned())?;
        Ok(Self { control })
    }

    /// A device of `sectors` of 512 bytes with this target and its words.
    pub(super) fn make(
        &self,
        name: &'static str,
        sectors: u64,
        target: &str,
        words: &str,
    ) -> Result<Mapped, GuestError> {
        let failed = |what: &str| format!("cannot {what} the {target} device");
        let mut created = request(name);
        attempt(self.ask(CREATE, &mut created), || failed("make"))?;
        let number = u64::from_ne_bytes(created[40..48].try_into().unwrap_or_default());
        let minor = (number & 0xff) | ((number >> 12) & 0xf_ff00);
        let mapped = Mapped { name, node: PathBuf::from(format!("/dev/dm-{minor}")) };
        let mut table = request(name);
        put_u32(&mut table, 20, 1);
        let spec = HEADER_BYTES;
        table[spec + 8..spec + 16].copy_from_slice(&sectors.to_ne_bytes());
        put_u32(&mut table, spec + 20, (TARGET_BYTES + words.len() + 1).next_multiple_of(8) as u32);
        put_text(&mut table, spec + 24, 16, target);
        put_text(&mut table, spec + TARGET_BYTES, REQUEST_BYTES - spec - TARGET_BYTES, words);
        let loaded = self.ask(LOAD, &mut table).and_then(|()| self.ask(RESUME, &mut request(name)));
        if let Err(error) = loaded {
            let _ = self.ask(REMOVE, &mut request(name));
            return attempt(Err(error), || failed("set up"));
        }
        Ok(mapped)
    }

    /// Takes a device away, as soon as nobody has it open.
    pub(super) fn remove(&self, mapped: Mapped) -> Result<(), GuestError> {
        let mut last = Ok(());
        for _ in 0..TRIES {
            last = self.ask(REMOVE, &mut request(mapped.name));
            match &last {
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                _ => break,
            }
        }
        attempt(last, || format!("cannot take {} away", mapped.node.display()))
    }

    fn ask(&self, command: libc::c_ulong, request: &mut [u8; REQUEST_BYTES]) -> std::io::Result<()> {
        // SAFETY: the request says its own size, within which the kernel reads and writes.
        let result = unsafe { libc::ioctl(self.control.as_raw_fd(), command, request.as_mut_ptr()) };
        if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
    }
}

fn request(name: &str) -> [u8; REQUEST_BYTES] {
    let mut request = [0; REQUEST_BYTES];
    // The version of the interface: 4.0.0 and later.
    put_u32(&mut request, 0, 4);
    put_u32(&mut request, 12, REQUEST_BYTES as u32);
    put_u32(&mut request, 16, HEADER_BYTES as u32);
    put_text(&mut request, 48, 128, name);
    request
}

fn put_u32(request: &mut [u8; REQUEST_BYTES], at: usize, value: u32) {
    request[at..at + 4].copy_from_slice(&value.to_ne_bytes());
}

/// Text that ends in a zero byte.
fn put_text(request: &mut [u8; REQUEST_BYTES], at: usize, room_bytes: usize, text: &str) {
    let len = text.len().min(room_bytes - 1);
    request[at..at + len].copy_from_slice(&text.as_bytes()[..len]);
}
