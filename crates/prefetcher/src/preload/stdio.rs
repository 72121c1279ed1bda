//! The C library's streams: their reads of the file do not go through the functions of its own that could be hooked.

use core::ffi::{c_char, c_int, c_void};

use super::hooks::hooks;
use super::recording::begin;
use super::{descriptors, reading};

#[link(name = "c")]
unsafe extern "C" {
    fn fileno(stream: *mut c_void) -> c_int;
}

/// `FILE`, by address.
type Stream = *mut c_void;

#[inline]
fn descriptor(stream: Stream) -> c_int {
    if stream.is_null() {
        return -1;
    }
    // SAFETY: the program's own stream, which it has open.
    unsafe { fileno(stream) }
}

/// What `fopen` and its kin return.
#[inline]
fn opened(stream: Stream) -> Stream {
    if !stream.is_null() {
        reading::opened(descriptor(stream));
    }
    stream
}

hooks! {
    fn fopen(path: *const c_char, mode: *const c_char) -> Stream, |real| opened(real(path, mode));
    fn fopen64(path: *const c_char, mode: *const c_char) -> Stream, |real| opened(real(path, mode));
    fn freopen(path: *const c_char, mode: *const c_char, stream: Stream) -> Stream,
        |real| { descriptors::forget(descriptor(stream)); opened(real(path, mode, stream)) };
    fn freopen64(path: *const c_char, mode: *const c_char, stream: Stream) -> Stream,
        |real| { descriptors::forget(descriptor(stream)); opened(real(path, mode, stream)) };
    fn fclose(stream: Stream) -> c_int, |real| { descriptors::forget(descriptor(stream)); real(stream) };

    fn fread(buffer: *mut c_void, size: usize, count: usize, stream: Stream) -> usize,
        |real| read(begin(), stream, size, real(buffer, size, count, stream));
    fn fread_unlocked(buffer: *mut c_void, size: usize, count: usize, stream: Stream) -> usize,
        |real| read(begin(), stream, size, real(buffer, size, count, stream));
    fn __fread_chk(buffer: *mut c_void, room: usize, size: usize, count: usize, stream: Stream) -> usize,
        |real| read(begin(), stream, size, real(buffer, room, size, count, stream));
    fn __fread_unlocked_chk(buffer: *mut c_void, room: usize, size: usize, count: usize, stream: Stream) -> usize,
        |real| read(begin(), stream, size, real(buffer, room, size, count, stream));
}

/// Reads of less are lines and headers, for whose sake nobody asks where the descriptor stands.
const LEAST_BYTES: usize = 512;

/// What `fread` returns.
#[inline]
fn read(began_ns: u64, stream: Stream, size: usize, items: usize) -> usize {
    let consumed = size.saturating_mul(items);
    if consumed >= LEAST_BYTES {
        reading::buffered(began_ns, descriptor(stream), consumed);
    }
    items
}
