//! From the bytes of a FUSE request to what it asks.

use zerocopy::FromBytes;

use crate::abi::{FallocateIn, FallocateMode, InHeader, InitIn, LseekIn, TransferIn, opcode};

/// Room that a read of `/dev/fuse` needs besides a write's data: the kernel
/// refuses a smaller buffer (`fuse_dev_do_read` in `fs/fuse/dev.c`).
pub(crate) const HEADER_ROOM_BYTES: usize = size_of::<InHeader>() + size_of::<TransferIn>();

/// What the kernel offers first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Init {
    pub(crate) major: u32,
    pub(crate) minor: u32,
    pub(crate) max_readahead: u32,
    pub(crate) flags: u32,
    /// Zero from kernels before 7.36.
    pub(crate) flags2: u32,
}

/// What the kernel asks.
#[derive(Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// The node of this name in the folder that is asked.
    Lookup {
        /// Without its end.
        name: &'a [u8],
    },
    /// The node's attributes.
    GetAttr,
    /// The node is opened.
    Open,
    /// Data is wanted, as much of it as there is.
    Read {
        /// From here on, in bytes.
        offset: u64,
        /// At most [`MAX_TRANSFER_BYTES`](crate::MAX_TRANSFER_BYTES).
        length: u32,
    },
    /// Data is to be written; the answer is [`Body::written`](crate::Body::written).
    Write {
        /// From here on, in bytes.
        offset: u64,
        /// All of it, or nothing.
        data: &'a [u8],
    },
    /// What was written is to last.
    Fsync,
    /// Room is taken or given back (fallocate(2)).
    Fallocate {
        /// From here on, in bytes.
        offset: u64,
        /// So many bytes.
        length: u64,
        /// What is to be done.
        mode: FallocateMode,
    },
    /// Where data or a hole begins next (lseek(2)); the answer is eight bytes.
    Seek {
        /// From here on, in bytes.
        offset: u64,
        /// `SEEK_DATA` or `SEEK_HOLE`.
        whence: u32,
    },
    /// What the file system has room for.
    StatFs,
    /// `access(2)`, or `close(2)` of one of several descriptors: nothing to do.
    Nothing,
    /// The last descriptor of one [`Open`](Self::Open) is closed.
    Release,
    /// A request that takes no reply: FORGET and BATCH_FORGET (the nodes are
    /// permanent), INTERRUPT (what is under way is finished).
    Unanswered,
    /// The file system is unmounted.
    Destroy,
    /// Known to be unused here, or unknown.
    Unsupported,
}

/// Why bytes are not a request. The kernel sends none of these; whoever does is
/// not the kernel, and the connection is at an end.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ParseError {
    #[error("{bytes} bytes are no FUSE request")]
    Short { bytes: usize },
    #[error("a FUSE request says that it has {said} bytes and has {bytes}")]
    Length { said: u32, bytes: usize },
    #[error("FUSE request {opcode} is cut off after {bytes} bytes")]
    Cut { opcode: u32, bytes: usize },
}

/// The parts of a request.
pub(crate) struct Parts<'a> {
    pub(crate) header: InHeader,
    /// The operation's own header, if it has one; anything may follow.
    pub(crate) own: &'a [u8],
    /// What follows that: a name, or data.
    pub(crate) rest: &'a [u8],
}

impl<'a> Parts<'a> {
    /// Of `bytes`, exactly one request, as `/dev/fuse` gives it: everything one behind the other.
    pub(crate) fn of(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (header, own) = InHeader::read_from_prefix(bytes).map_err(|_| ParseError::Short { bytes: bytes.len() })?;
        if header.len as usize != bytes.len() {
            return Err(ParseError::Length { said: header.len, bytes: bytes.len() });
        }
        // Of the operations with more than a header of their own, LOOKUP has only the rest.
        let own_bytes = if header.opcode == opcode::WRITE { size_of::<TransferIn>().min(own.len()) } else { 0 };
        Ok(Self { header, own, rest: own.get(own_bytes..).unwrap_or_default() })
    }

    fn cut(&self) -> ParseError {
        ParseError::Cut { opcode: self.header.opcode, bytes: self.header.len as usize }
    }

    /// The kernel's offer, if it is one.
    pub(crate) fn init(&self) -> Result<Option<Init>, ParseError> {
        if self.header.opcode != opcode::INIT {
            return Ok(None);
        }
        let (InitIn { major, minor, max_readahead, flags }, more) = read(self.own).ok_or_else(|| self.cut())?;
        let flags2 = read(more).map_or(0, |(flags2, _)| flags2);
        Ok(Some(Init { major, minor, max_readahead, flags, flags2 }))
    }

    /// What is asked.
    pub(crate) fn operation(&self) -> Result<Operation<'a>, ParseError> {
        let cut = || self.cut();
        let Self { own, rest, .. } = *self;
        Ok(match self.header.opcode {
            opcode::LOOKUP => {
                let end = rest.iter().position(|byte| *byte == 0).ok_or_else(cut)?;
                Operation::Lookup { name: rest.get(..end).unwrap_or_default() }
            }
            opcode::GETATTR => Operation::GetAttr,
            opcode::OPEN => Operation::Open,
            opcode::READ => {
                let (TransferIn { offset, size, .. }, _) = read(own).ok_or_else(cut)?;
                Operation::Read { offset, length: size }
            }
            opcode::WRITE => {
                let (TransferIn { offset, size, .. }, _) = read(own).ok_or_else(cut)?;
                if rest.len() != size as usize {
                    return Err(cut());
                }
                Operation::Write { offset, data: rest }
            }
            opcode::FSYNC => Operation::Fsync,
            opcode::FALLOCATE => {
                let (FallocateIn { offset, length, mode, .. }, _) = read(own).ok_or_else(cut)?;
                Operation::Fallocate { offset, length, mode: FallocateMode::from_bits_retain(mode) }
            }
            opcode::LSEEK => {
                let (LseekIn { offset, whence, .. }, _) = read(own).ok_or_else(cut)?;
                Operation::Seek { offset, whence }
            }
            opcode::STATFS => Operation::StatFs,
            opcode::ACCESS | opcode::FLUSH => Operation::Nothing,
            opcode::RELEASE => Operation::Release,
            opcode::FORGET | opcode::BATCH_FORGET | opcode::INTERRUPT => Operation::Unanswered,
            opcode::DESTROY => Operation::Destroy,
            _ => Operation::Unsupported,
        })
    }
}

fn read<T: FromBytes>(body: &[u8]) -> Option<(T, &[u8])> {
    T::read_from_prefix(body).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zerocopy::IntoBytes;

    use super::*;

    fn request(opcode: u32, body: &[u8]) -> Vec<u8> {
        let len = (size_of::<InHeader>() + body.len()) as u32;
        let header = InHeader { len, opcode, unique: 7, nodeid: 2, ..InHeader::default() };
        [header.as_bytes(), body].concat()
    }

    fn operation(bytes: &[u8]) -> Result<Operation<'_>, ParseError> {
        Parts::of(bytes)?.operation()
    }

    #[test]
    fn an_offer_may_have_more_flags() {
        let offer = [7_u32, 45, 131_072, 1, 2, 3];
        let offered = |words: usize| {
            let bytes = request(opcode::INIT, offer[..words].as_bytes());
            Parts::of(&bytes).unwrap().init()
        };
        let init = Init { major: 7, minor: 45, max_readahead: 131_072, flags: 1, flags2: 0 };
        assert_eq!(offered(4), Ok(Some(init)));
        assert_eq!(offered(6), Ok(Some(Init { flags2: 2, ..init })));
        assert!(offered(3).is_err());
        assert_eq!(Parts::of(&request(opcode::OPEN, &[])).unwrap().init(), Ok(None));
    }

    #[test]
    fn a_write_carries_its_data() {
        let body = TransferIn { offset: 8192, size: 5, ..TransferIn::default() };
        let bytes = request(opcode::WRITE, &[body.as_bytes(), b"hello"].concat());
        let parts = Parts::of(&bytes).unwrap();
        assert_eq!((parts.header.unique, parts.header.nodeid), (7, 2));
        assert_eq!(parts.operation().unwrap(), Operation::Write { offset: 8192, data: b"hello" });
        // One byte less than announced.
        let bytes = request(opcode::WRITE, &[body.as_bytes(), b"hell"].concat());
        assert_eq!(operation(&bytes), Err(ParseError::Cut { opcode: opcode::WRITE, bytes: 84 }));
    }

    #[test]
    fn a_name_ends_at_its_zero() {
        assert_eq!(operation(&request(opcode::LOOKUP, b"disk\0")).unwrap(), Operation::Lookup { name: b"disk" });
        assert!(operation(&request(opcode::LOOKUP, b"disk")).is_err());
    }

    proptest! {
        /// Whatever the bytes, parsing ends, and the parts it names are in them.
        #[test]
        fn arbitrary_bytes(mut bytes in prop::collection::vec(any::<u8>(), 0..200), opcode in 0_u32..60, honest in any::<bool>()) {
            if honest && bytes.len() >= 8 {
                let len = bytes.len() as u32;
                bytes[..4].copy_from_slice(&len.to_ne_bytes());
                bytes[4..8].copy_from_slice(&opcode.to_ne_bytes());
            }
            match operation(&bytes) {
                Ok(Operation::Write { data, .. }) => {
                    prop_assert_eq!(data.len() + HEADER_ROOM_BYTES, bytes.len());
                }
                Ok(Operation::Lookup { name }) => prop_assert!(!name.contains(&0)),
                Ok(_) => prop_assert!(bytes.len() >= size_of::<InHeader>()),
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
            let _ = Parts::of(&bytes).map(|parts| parts.init());
        }
    }
}
