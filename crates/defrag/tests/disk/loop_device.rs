//! Loop devices made by the kernel's own calls: a thousand states would start thousands of programs otherwise.
//!
//! Source: `include/uapi/linux/loop.h`.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};

const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4c82;
const LOOP_CONFIGURE: libc::Ioctl = 0x4c0a;
/// The device lets go of its file when nobody has it open or mounted any more.
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_DIRECT_IO: u32 = 16;
/// Whoever gives a device a file has it for themselves for a moment, one that is taken already too.
const MOUNTS: u32 = 500;
/// Somebody else may take a device that was free a moment ago.
const ATTEMPTS: u32 = 100;

#[repr(C)]
struct LoopInfo64 {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    sizelimit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo64,
    reserved: [u64; 8],
}

/// Mounts a loop device, once nobody tries to give it a file any more.
pub fn mount_loop(device: &Path, place: &Path, system: &str, options: &str) -> rustix::io::Result<()> {
    let options = CString::new(options).map_err(|_| Errno::INVAL)?;
    for _ in 0..MOUNTS {
        match mount(device, place, system, MountFlags::empty(), Some(options.as_c_str())) {
            Err(Errno::BUSY) => thread::sleep(Duration::from_millis(10)),
            done => return done,
        }
    }
    Err(Errno::BUSY)
}

/// Whether the file is used past the page cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direct {
    Yes,
    No,
}

/// A loop device over a file, until it is dropped and no longer mounted.
pub struct LoopDevice {
    path: PathBuf,
    /// For reading: kernels may refuse to mount what is open for writing.
    _held: File,
}

impl LoopDevice {
    /// Over an image.
    pub fn new(image: &Path) -> io::Result<Self> {
        Self::over(&OpenOptions::new().read(true).write(true).open(image)?, Direct::No)
    }

    /// Over an open file.
    pub fn over(image: &File, direct: Direct) -> io::Result<Self> {
        let control = OpenOptions::new().read(true).write(true).open("/dev/loop-control")?;
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for _ in 0..ATTEMPTS {
            // SAFETY: the call takes no argument.
            let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
            if number < 0 {
                return Err(io::Error::last_os_error());
            }
            let path = PathBuf::from(format!("/dev/loop{number}"));
            let made = OpenOptions::new().read(true).write(true).open(&path).and_then(|device| {
                configure(&device, image, direct)?;
                File::open(&path)
            });
            match made {
                Ok(held) => return Ok(Self { path, _held: held }),
                Err(error) => last = error,
            }
            thread::sleep(Duration::from_millis(1));
        }
        Err(last)
    }

    /// `/dev/loopN`.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn configure(device: &File, image: &File, direct: Direct) -> io::Result<()> {
    let direct = if direct == Direct::Yes { LO_FLAGS_DIRECT_IO } else { 0 };
    let config = LoopConfig {
        fd: image.as_raw_fd().try_into().unwrap(),
        block_size: 0,
        info: LoopInfo64 {
            device: 0,
            inode: 0,
            rdevice: 0,
            offset: 0,
            sizelimit: 0,
            number: 0,
            encrypt_type: 0,
            encrypt_key_size: 0,
            flags: LO_FLAGS_AUTOCLEAR | direct,
            file_name: [0; 64],
            crypt_name: [0; 64],
            encrypt_key: [0; 32],
            init: [0; 2],
        },
        reserved: [0; 8],
    };
    // SAFETY: both descriptors are open for the time of the call; the structure is the kernel's, which reads it only.
    let done = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const config) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
