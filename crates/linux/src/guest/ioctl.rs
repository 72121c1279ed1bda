//! The system calls that no wrapper has: credit for random bytes, and the loopback interface.

use std::fs::File;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use super::error::{GuestError, attempt};

/// Bytes of seed: what the kernel's generator takes for complete.
const SEED_BYTES: usize = 64;

/// `struct rand_pool_info` of `linux/random.h` with its buffer.
#[repr(C)]
struct RandomPool {
    entropy_bits: libc::c_int,
    bytes: libc::c_int,
    buffer: [u8; SEED_BYTES],
}

/// `RNDADDENTROPY`: `_IOW('R', 0x03, int[2])`.
const ADD_ENTROPY: libc::c_ulong = 0x4008_5203;

/// Gives the kernel's random numbers their only source, so that they are the same each time.
pub(super) fn seed_random(seed: u64) -> Result<(), GuestError> {
    let failed = || "cannot seed the kernel's random numbers".to_owned();
    let random = attempt(File::options().write(true).open("/dev/urandom"), failed)?;
    let mut hash = blake3::Hasher::new();
    hash.update(b"plumb linux");
    hash.update(&seed.to_le_bytes());
    let mut pool = RandomPool {
        entropy_bits: 8 * SEED_BYTES as libc::c_int,
        bytes: SEED_BYTES as libc::c_int,
        buffer: [0; SEED_BYTES],
    };
    hash.finalize_xof().fill(&mut pool.buffer);
    // SAFETY: the request reads `bytes` bytes of the buffer behind its two numbers, which `pool` has.
    let result = unsafe { libc::ioctl(random.as_raw_fd(), ADD_ENTROPY, &raw const pool) };
    attempt(if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }, failed)
}

/// Brings the loopback interface up; NVMe/TCP lives on it.
pub(super) fn loopback_up() -> Result<(), GuestError> {
    let failed = || "cannot bring the loopback interface up".to_owned();
    let socket = attempt(UdpSocket::bind(("0.0.0.0", 0)), failed)?;
    // SAFETY: all-zero bytes are a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: the request reads a whole `ifreq`, whose name ends in zeros.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    attempt(if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }, failed)
}
