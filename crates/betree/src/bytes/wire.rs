//! Bytes to numbers and back, little endian, with every length checked.

/// Why bytes are not what they should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Malformed(pub &'static str);

/// The longest varint.
pub(crate) const VARINT_BYTES_MAX: usize = 10;

/// Takes values off the front of some bytes.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    #[inline]
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (front, rest) = self.rest.split_at_checked(len).ok_or(Malformed("it ends too early"))?;
        self.rest = rest;
        Ok(front)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (front, rest) = self.rest.split_first_chunk().ok_or(Malformed("it ends too early"))?;
        self.rest = rest;
        Ok(*front)
    }

    pub fn u8(&mut self) -> Result<u8, Malformed> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    pub fn u128(&mut self) -> Result<u128, Malformed> {
        self.array().map(u128::from_le_bytes)
    }

    /// LEB128 of at most 64 bits.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, Malformed> {
        match self.rest {
            // Most lengths are short.
            [byte, rest @ ..] if *byte < 0x80 => {
                self.rest = rest;
                Ok(u64::from(*byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Malformed("a number is too long"))
    }

    /// Bytes behind their length.
    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.varint()?;
        self.take(usize::try_from(len).map_err(|_| Malformed("a length is too large"))?)
    }

    /// How many items follow, where each takes at least `min_bytes`.
    pub fn count(&mut self, min_bytes: usize) -> Result<usize, Malformed> {
        let count = self.varint()?;
        match usize::try_from(count) {
            Ok(count) if count.saturating_mul(min_bytes) <= self.rest.len() => Ok(count),
            _ => Err(Malformed("a count is larger than what follows")),
        }
    }

    pub fn end(&self) -> Result<(), Malformed> {
        if self.rest.is_empty() { Ok(()) } else { Err(Malformed("bytes follow its end")) }
    }
}

pub(crate) fn put_varint(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

pub(crate) fn put_bytes(to: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(to, bytes.len() as u64);
    to.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn varints_come_back(value: u64, tail: u8) {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            bytes.push(tail);
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(reader.varint(), Ok(value));
            prop_assert_eq!(reader.u8(), Ok(tail));
            prop_assert!(reader.end().is_ok());
        }

        #[test]
        fn any_bytes_give_a_value_or_an_error(bytes: Vec<u8>) {
            let mut reader = Reader::new(&bytes);
            while reader.bytes().is_ok() && reader.remaining() > 0 {}
            let _ = Reader::new(&bytes).count(3);
        }
    }
}
