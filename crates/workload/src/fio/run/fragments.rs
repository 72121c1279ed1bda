//! A file in pieces: where its bytes lie on the device, and one I/O on it as
//! several bios.
//!
//! A direct read or write of a file becomes one bio for each physically contiguous
//! piece it covers, all behind one plug, and is done when the last of them is
//! (Linux fs/iomap/direct-io.c, `__iomap_dio_rw`): request splitting.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use block::{Bio, BioFuture, BioResult, Sector};
use nvme::Status;
use sim::cpu::Cpus;
use trace::RequestId;
use units::Nanos;

use super::wakers::Wakers;
use crate::fio::generate::Region;
use crate::fio::parse::Options;

/// The layout of a file on the device: pieces of one length, one distance apart
/// (J. Park and Y. I. Eom, "FragPicker", SOSP '21, section 3: `frag_size` and
/// `frag_distance`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fragments {
    /// Where the first piece begins, which is also the file's first byte.
    start: u64,
    /// Bytes of a piece; more than 0.
    size: u64,
    /// Bytes between the end of a piece and the beginning of the next.
    distance: u64,
}

impl Fragments {
    /// What `options` say of the file whose first piece begins at `start`; `None`
    /// where it is in one piece, as it is without gaps.
    pub fn new(options: &Options, start: u64) -> Option<Self> {
        let (size, distance) = (options.frag_size_bytes, options.frag_distance_bytes);
        (size > 0 && distance > 0).then_some(Self { start, size, distance })
    }

    /// One past the last byte on the device of a file of `bytes`; `u64::MAX` where
    /// that is no number.
    pub fn end(&self, bytes: u64) -> u64 {
        let gaps = bytes.div_ceil(self.size).saturating_sub(1);
        self.start.saturating_add(bytes).saturating_add(gaps.saturating_mul(self.distance))
    }

    /// The pieces of bytes `offset` to `offset + bytes`, which count from the
    /// file's first piece as if it had no gaps.
    fn pieces(self, offset: u64, bytes: u64) -> impl Iterator<Item = Region> {
        let end = offset + bytes;
        let mut next = offset;
        std::iter::from_fn(move || {
            let (piece, within) = ((next - self.start) / self.size, (next - self.start) % self.size);
            let bytes = (self.size - within).min(end - next);
            let start = next + piece * self.distance;
            next += bytes;
            (bytes > 0).then_some(Region { start, bytes })
        })
    }

    /// How many bios a read, write or trim becomes.
    pub fn count(self, offset: u64, bytes: u64) -> u64 {
        let number = |at: u64| (at - self.start) / self.size;
        if bytes == 0 { 0 } else { number(offset + bytes - 1) - number(offset) + 1 }
    }

    /// A bio on the file as bios on the device, in the file's order.
    pub fn split(self, bio: Bio) -> Vec<Bio> {
        let Bio { nsid, op, sector, bytes, flags, data, order, request } = bio;
        let mut rest = data.as_deref();
        let mut place = |region: Region| {
            let part = rest.map(|rest| rest.split_at((region.bytes as usize).min(rest.len())));
            rest = part.map(|(_, later)| later);
            let data = part.map(|(part, _)| part.into());
            Bio {
                nsid,
                op,
                sector: Sector(region.start / Sector::BYTES),
                bytes: region.bytes,
                flags,
                data,
                order,
                request,
            }
        };
        self.pieces(sector.0 * Sector::BYTES, bytes).map(&mut place).collect()
    }
}

/// The bios of one I/O on its way: done when the last of them is.
pub(super) struct Parts {
    /// In the file's order.
    parts: Vec<Part>,
    left: usize,
    wakers: Wakers,
    /// Whether every part was looked at, so that only those woken need be.
    looked: bool,
    sector: Sector,
    handler: Option<Handler>,
}

/// One bio: on its way with the waker of its place, or done.
enum Part {
    OnItsWay(BioFuture, Waker),
    Done(BioResult),
}

/// The completion interrupts of a request's earlier parts. That of the last is
/// its reaper's.
pub(super) struct Handler {
    pub cpus: Cpus,
    pub core: u16,
    pub cost: Nanos,
    pub request: RequestId,
}

impl Parts {
    /// Of the I/O that begins at `sector` of the file; `handler` where completions
    /// interrupt.
    pub fn new(parts: Vec<BioFuture>, sector: Sector, handler: Option<Handler>) -> Self {
        let wakers = Wakers::default();
        let parts: Vec<Part> = (0..).zip(parts).map(|(number, part)| Part::OnItsWay(part, wakers.of(number))).collect();
        Self { left: parts.len(), parts, wakers, looked: false, sector, handler }
    }

    /// The first failure in the file's order, or everything that was read.
    fn result(&mut self) -> BioResult {
        let mut whole =
            BioResult { status: Status::SUCCESS, sector: self.sector, data: None, completed_at: Nanos::ZERO };
        let mut bytes: Option<Vec<u8>> = Some(Vec::new());
        for part in self.parts.drain(..) {
            let Part::Done(part) = part else { continue };
            if whole.status.is_success() {
                whole.status = part.status;
            }
            whole.completed_at = whole.completed_at.max(part.completed_at);
            bytes = bytes.zip(part.data).map(|(mut bytes, more)| {
                bytes.extend_from_slice(&more);
                bytes
            });
        }
        whole.data = bytes.map(Vec::into_boxed_slice).filter(|_| whole.status.is_success());
        whole
    }
}

impl Parts {
    fn poll_part(&mut self, number: u32) {
        let part = &mut self.parts[number as usize];
        let Part::OnItsWay(future, waker) = part else { return };
        let Poll::Ready(result) = Pin::new(future).poll(&mut Context::from_waker(waker)) else { return };
        *part = Part::Done(result);
        self.left -= 1;
        if let Some(Handler { cpus, core, cost, request }) = self.handler.as_ref().filter(|_| self.left > 0) {
            cpus.interrupt_for(*request, *core, *cost);
        }
    }
}

impl Future for Parts {
    type Output = BioResult;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<BioResult> {
        let this = &mut *self;
        if std::mem::replace(&mut this.looked, true) {
            let woken = this.wakers.woken();
            for number in &woken {
                this.poll_part(*number);
            }
            this.wakers.reuse(woken);
        } else {
            for number in 0..this.parts.len() as u32 {
                this.poll_part(number);
            }
        }
        if this.left == 0 {
            return Poll::Ready(this.result());
        }
        this.wakers.wake(context.waker());
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use block::{BioFlags, BioOp};
    use nvme::NamespaceId;
    use proptest::prelude::*;

    use super::*;

    fn fragments() -> impl Strategy<Value = Fragments> {
        (0..9_u64, 1..9_u64, 0..9_u64).prop_map(|(start, size, distance)| Fragments {
            start: start * 512,
            size: size * 512,
            distance: distance * 512,
        })
    }

    proptest! {
        /// Against the definition: byte by byte (here sector by sector), a piece
        /// then a gap.
        #[test]
        fn every_byte_lies_where_the_definition_says(layout in fragments(), first in 0..40_u64, sectors in 1..40_u64) {
            let mut device = Vec::new();
            let mut at = layout.start;
            while device.len() < 80 {
                device.extend((0..layout.size / 512).map(|sector| at + sector * 512));
                at += layout.size + layout.distance;
            }
            let expected = &device[first as usize..(first + sectors) as usize];
            let pieces: Vec<Region> = layout.pieces(layout.start + first * 512, sectors * 512).collect();
            let found: Vec<u64> =
                pieces.iter().flat_map(|piece| (0..piece.bytes / 512).map(|sector| piece.start + sector * 512)).collect();
            prop_assert_eq!(&found, expected);
            prop_assert_eq!(layout.end((first + sectors) * 512), expected[expected.len() - 1] + 512);
            // No more pieces than boundaries ask for.
            let size = layout.size / 512;
            prop_assert_eq!(pieces.len() as u64, (first + sectors - 1) / size - first / size + 1);
            prop_assert_eq!(layout.count(layout.start + first * 512, sectors * 512), pieces.len() as u64);
        }

        #[test]
        fn a_write_carries_its_own_bytes(layout in fragments(), first in 0..40_u64, sectors in 1..40_u64) {
            let bytes: Vec<u8> = (0..sectors * 512).map(|byte| (byte / 512) as u8).collect();
            let bio = Bio {
                nsid: NamespaceId(1),
                op: BioOp::Write,
                sector: Sector(layout.start / 512 + first),
                bytes: sectors * 512,
                flags: BioFlags::SYNC,
                data: Some(bytes.clone().into_boxed_slice()),
                order: None, request: RequestId(3),
            };
            let parts = layout.split(bio);
            let joined: Vec<u8> = parts.iter().flat_map(|part| part.data.clone().unwrap().into_vec()).collect();
            prop_assert_eq!(joined, bytes);
            prop_assert!(parts.iter().all(|part| part.data.as_ref().unwrap().len() as u64 == part.bytes));
        }
    }

    #[test]
    fn a_file_too_long_for_any_device_has_an_end_beyond_it() {
        let layout = Fragments { start: 4096, size: 4096, distance: u64::MAX / 2 };
        assert_eq!(layout.end(1 << 20), u64::MAX);
        assert_eq!(layout.end(4096), 8192);
    }
}
