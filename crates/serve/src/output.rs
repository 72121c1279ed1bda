//! Bytes on their way to a client.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Write};

/// Below this size, bytes are copied next to each other so that one system call
/// sends many replies; above it they travel where they are.
const COALESCE_BYTES: usize = 32 << 10;

/// Segments given to one writev(2).
const SEGMENTS_PER_WRITE: usize = 32;

/// A queue of segments, sent from the front.
#[derive(Debug, Default)]
pub(crate) struct Output {
    segments: VecDeque<Vec<u8>>,
    /// Bytes of the first segment already sent.
    sent: usize,
    /// Bytes not yet sent.
    len: usize,
    /// An empty segment kept for its allocation.
    spare: Vec<u8>,
}

impl Output {
    /// Bytes not yet sent.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Appends a copy of `bytes`.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.len += bytes.len();
        match self.segments.back_mut() {
            Some(last) if last.len() + bytes.len() <= COALESCE_BYTES => last.extend_from_slice(bytes),
            _ => {
                let mut segment = std::mem::take(&mut self.spare);
                segment.extend_from_slice(bytes);
                self.segments.push_back(segment);
            }
        }
    }

    /// Appends `bytes` themselves where copying them would cost more.
    pub(crate) fn push_owned(&mut self, bytes: Box<[u8]>) {
        if bytes.len() < COALESCE_BYTES {
            self.push(&bytes);
        } else {
            self.len += bytes.len();
            self.segments.push_back(bytes.into_vec());
        }
    }

    /// Sends as much as the socket takes without blocking.
    pub(crate) fn send(&mut self, mut socket: impl Write) -> io::Result<()> {
        while self.len > 0 {
            let mut slices = [IoSlice::new(&[]); SEGMENTS_PER_WRITE];
            for (slice, segment) in slices.iter_mut().zip(&self.segments) {
                *slice = IoSlice::new(segment);
            }
            if let Some(first) = self.segments.front() {
                slices[0] = IoSlice::new(&first[self.sent..]);
            }
            let count = self.segments.len().min(SEGMENTS_PER_WRITE);
            match socket.write_vectored(&slices[..count]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => self.drop_front(bytes),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn drop_front(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.len);
        self.len -= bytes;
        self.sent += bytes;
        while let Some(first) = self.segments.front_mut() {
            if self.sent < first.len() {
                break;
            }
            self.sent -= first.len();
            let mut segment = std::mem::take(first);
            self.segments.pop_front();
            if segment.capacity() <= 2 * COALESCE_BYTES {
                segment.clear();
                self.spare = segment;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes a few bytes at a time and then blocks.
    struct Trickle {
        taken: Vec<u8>,
        room: usize,
    }

    impl Write for &mut Trickle {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.room == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let count = bytes.len().min(self.room);
            self.room -= count;
            self.taken.extend_from_slice(&bytes[..count]);
            Ok(count)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn order_survives_partial_writes() {
        let mut output = Output::default();
        let mut expected = Vec::new();
        let mut trickle = Trickle { taken: Vec::new(), room: 0 };
        for round in 0..200_usize {
            let bytes = vec![round as u8; round * 331 % 70_000];
            expected.extend_from_slice(&bytes);
            if round % 3 == 0 {
                output.push_owned(bytes.into())
            } else {
                output.push(&bytes)
            }
            trickle.room = round * 977 % 50_000;
            output.send(&mut trickle).unwrap();
            assert_eq!(output.len(), expected.len() - trickle.taken.len());
        }
        trickle.room = usize::MAX;
        output.send(&mut trickle).unwrap();
        assert_eq!(output.len(), 0);
        assert!(trickle.taken == expected);
    }
}
