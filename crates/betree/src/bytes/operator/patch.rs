//! Blind writes into parts of a value.

use std::borrow::Cow;
use std::collections::VecDeque;

use super::{Growth, Operator};
use crate::bytes::wire::{Malformed, Reader, put_bytes, put_varint};

/// Writes bytes at offsets of a value, and cuts its end off, without reading it. What was never written before the end
/// of the last byte is zero. A key of which nothing is left has no value: to whoever pads values with zeroes to a block,
/// it is a hole.
///
/// Patches of one key join to one: the newer bytes where two overlap, and pieces that touch become one. So what waits
/// for a key is never more than its value and the offsets.
///
/// ```
/// use betree::{Batch, Database, Durability, Options, Patch};
///
/// let options = Options::default().operator(1, Patch);
/// let database = Database::create(storage::Memory::new(64 << 20), options, 0x5eed)?;
/// let blocks = database.tree("blocks")?;
/// let mut batch = Batch::new();
/// batch.upsert(&blocks, "7", 1, Patch::write(3, b"abcdef"));
/// batch.upsert(&blocks, "7", 1, Patch::cut(6));
/// batch.upsert(&blocks, "7", 1, Patch::write_all([(1, &b"x"[..]), (8, b"y")]));
/// database.commit(&batch, Durability::Sync)?;
/// assert_eq!(blocks.get("7")?.as_deref(), Some(&b"\0x\0abc\0\0y"[..]));
/// # Ok::<(), betree::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Patch;

/// An operand: first the value ends at `keep_bytes`, then it has `least_bytes` at least, then the pieces are written.
///
/// Encoded: 0, or `keep_bytes` and 1; `least_bytes`; the pieces, each an offset and bytes. The numbers are varints.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Form<'a> {
    keep_bytes: Option<usize>,
    /// What a cut leaves of an older piece that began behind it: zeroes up to the cut.
    least_bytes: usize,
    /// In ascending order; none is empty, and none touches the next.
    pieces: Vec<(usize, Cow<'a, [u8]>)>,
}

fn number(from: &mut Reader<'_>) -> Result<usize, Malformed> {
    u32::try_from(from.varint()?).map(|number| number as usize).map_err(|_| Malformed("an offset is too large"))
}

impl<'a> Form<'a> {
    fn decode(operand: &'a [u8]) -> Result<Self, Malformed> {
        let mut from = Reader::new(operand);
        let keep_bytes = number(&mut from)?.checked_sub(1);
        let least_bytes = number(&mut from)?;
        let mut pieces: Vec<(usize, Cow<'a, [u8]>)> = Vec::new();
        let mut end = None;
        while from.remaining() > 0 {
            let (offset, bytes) = (number(&mut from)?, from.bytes()?);
            if bytes.is_empty() || end.is_some_and(|end| offset <= end) {
                return Err(Malformed("the pieces of a patch are empty or out of order"));
            }
            end = Some(offset + bytes.len());
            pieces.push((offset, Cow::Borrowed(bytes)));
        }
        Ok(Self { keep_bytes, least_bytes, pieces })
    }

    fn encode(&self) -> Vec<u8> {
        let mut to = Vec::with_capacity(8 + self.pieces.iter().map(|(_, bytes)| 12 + bytes.len()).sum::<usize>());
        put_varint(&mut to, self.keep_bytes.map_or(0, |bytes| bytes as u64 + 1));
        put_varint(&mut to, self.least_bytes as u64);
        for (offset, bytes) in &self.pieces {
            put_varint(&mut to, *offset as u64);
            put_bytes(&mut to, bytes);
        }
        to
    }

    /// Bytes that a value has at least.
    fn end(&self) -> usize {
        self.pieces.last().map_or(0, |(offset, bytes)| offset + bytes.len()).max(self.least_bytes)
    }

    /// As if the value were cut afterwards.
    fn cut(&mut self, keep_bytes: usize) {
        self.least_bytes = self.end().min(keep_bytes);
        self.keep_bytes = Some(self.keep_bytes.map_or(keep_bytes, |bytes| bytes.min(keep_bytes)));
        self.pieces.retain(|(offset, _)| *offset < keep_bytes);
        if let Some((offset, bytes)) = self.pieces.last_mut()
            && *offset + bytes.len() > keep_bytes
        {
            match bytes {
                Cow::Borrowed(bytes) => *bytes = &bytes[..keep_bytes - *offset],
                Cow::Owned(bytes) => bytes.truncate(keep_bytes - *offset),
            }
        }
    }

    /// Adds a piece behind the others, or to the last where it touches that.
    fn push(&mut self, offset: usize, bytes: Cow<'a, [u8]>) {
        match self.pieces.last_mut() {
            _ if bytes.is_empty() => {}
            Some((at, last)) if *at + last.len() == offset => last.to_mut().extend_from_slice(&bytes),
            _ => self.pieces.push((offset, bytes)),
        }
    }

    /// The first `at` bytes of a piece, and the others.
    fn split(piece: Cow<'a, [u8]>, at: usize) -> (Cow<'a, [u8]>, Cow<'a, [u8]>) {
        match piece {
            Cow::Borrowed(bytes) => {
                let (front, back) = bytes.split_at(at.min(bytes.len()));
                (Cow::Borrowed(front), Cow::Borrowed(back))
            }
            Cow::Owned(mut bytes) => {
                let back = bytes.split_off(at.min(bytes.len()));
                (Cow::Owned(bytes), Cow::Owned(back))
            }
        }
    }

    /// This, and then `newer`.
    fn then(mut self, newer: Self) -> Self {
        if let Some(keep_bytes) = newer.keep_bytes {
            self.cut(keep_bytes);
        }
        let mut joined = Self {
            keep_bytes: self.keep_bytes,
            least_bytes: self.least_bytes.max(newer.least_bytes),
            pieces: Vec::with_capacity(self.pieces.len() + newer.pieces.len()),
        };
        let mut older = VecDeque::from(self.pieces);
        for (start, bytes) in newer.pieces {
            let end = start + bytes.len();
            while let Some((offset, piece)) = older.pop_front_if(|(offset, _)| *offset < end) {
                let (front, rest) = Self::split(piece, start.saturating_sub(offset));
                let rest_at = offset + front.len();
                joined.push(offset, front);
                let (_, behind) = Self::split(rest, end - rest_at);
                // It may go on under the next newer piece.
                if !behind.is_empty() {
                    older.push_front((end, behind));
                    break;
                }
            }
            joined.push(start, bytes);
        }
        older.into_iter().for_each(|(offset, bytes)| joined.push(offset, bytes));
        joined
    }
}

impl Patch {
    /// The operand that writes `bytes` at `offset`.
    pub fn write(offset: usize, bytes: &[u8]) -> Vec<u8> {
        Self::write_all([(offset, bytes)])
    }

    /// The operand that writes all these, one after the other: each is an offset and its bytes.
    pub fn write_all<'a>(pieces: impl IntoIterator<Item = (usize, &'a [u8])>) -> Vec<u8> {
        let one = |(offset, bytes)| {
            let mut form = Form::default();
            form.push(offset, Cow::Borrowed(bytes));
            form
        };
        pieces.into_iter().map(one).fold(Form::default(), Form::then).encode()
    }

    /// The operand that cuts a value off at `keep_bytes`; a shorter one stays as it is.
    pub fn cut(keep_bytes: usize) -> Vec<u8> {
        Form { keep_bytes: Some(keep_bytes), ..Form::default() }.encode()
    }
}

impl Operator for Patch {
    fn apply(&self, existing: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>> {
        let existing = existing.unwrap_or_default();
        // What is no operand was refused when it was committed.
        let Ok(form) = Form::decode(operand) else { return Some(existing.to_vec()) };
        let kept = existing.get(..form.keep_bytes.unwrap_or(usize::MAX)).unwrap_or(existing);
        let mut value = Vec::with_capacity(kept.len().max(form.end()));
        value.extend_from_slice(kept);
        value.resize(kept.len().max(form.end()), 0);
        for (offset, bytes) in &form.pieces {
            value[*offset..*offset + bytes.len()].copy_from_slice(bytes);
        }
        (!value.is_empty()).then_some(value)
    }

    fn join(&self, older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        Some(Form::decode(older).ok()?.then(Form::decode(newer).ok()?).encode())
    }

    fn growth(&self, operand: &[u8]) -> Growth {
        match Form::decode(operand) {
            Ok(form) => Growth::UpTo(form.end()),
            Err(Malformed(what)) => Growth::Invalid(what),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// One call of a caller.
    #[derive(Clone, Debug)]
    enum Step {
        Write(usize, Vec<u8>),
        Cut(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0usize..40, prop::collection::vec(any::<u8>(), 0..12)).prop_map(|(at, bytes)| Step::Write(at, bytes)),
            1 => (0usize..50).prop_map(Step::Cut),
        ]
    }

    fn operand(step: &Step) -> Vec<u8> {
        match step {
            Step::Write(offset, bytes) => Patch::write(*offset, bytes),
            Step::Cut(keep_bytes) => Patch::cut(*keep_bytes),
        }
    }

    /// Byte by byte, as anybody would do it who has the value.
    fn carry_out(value: &mut Vec<u8>, step: &Step) {
        match step {
            Step::Write(offset, bytes) => {
                for (number, byte) in bytes.iter().enumerate() {
                    if value.len() <= offset + number {
                        value.resize(offset + number + 1, 0);
                    }
                    value[offset + number] = *byte;
                }
            }
            Step::Cut(keep_bytes) => value.truncate(*keep_bytes),
        }
    }

    fn join(list: &[Vec<u8>]) -> Option<Vec<u8>> {
        list.iter().cloned().reduce(|older, newer| Patch.join(&older, &newer).unwrap())
    }

    proptest! {
        /// Joined or not, and however they are joined, patches do what one write after the other does.
        #[test]
        fn joined_patches_do_the_same(existing in prop::option::of(prop::collection::vec(any::<u8>(), 1..60)), steps in prop::collection::vec(step(), 1..12), cut in any::<prop::sample::Index>()) {
            let operands: Vec<Vec<u8>> = steps.iter().map(operand).collect();
            let mut model = existing.clone().unwrap_or_default();
            steps.iter().for_each(|step| carry_out(&mut model, step));
            let model = (!model.is_empty()).then_some(model);
            let mut value = existing.clone();
            for operand in &operands {
                value = Patch.apply(value.as_deref(), operand);
            }
            prop_assert_eq!(&value, &model, "one after the other");
            let whole = join(&operands).unwrap();
            prop_assert_eq!(&Patch.apply(existing.as_deref(), &whole), &model, "joined");
            let (older, newer) = operands.split_at(cut.index(operands.len()));
            let halves = match (join(older), join(newer)) {
                (Some(older), Some(newer)) => Patch.join(&older, &newer).unwrap(),
                (one, other) => one.or(other).unwrap(),
            };
            prop_assert_eq!(&halves, &whole, "there is one form, whatever order they are joined in");
            let Growth::UpTo(end) = Patch.growth(&whole) else { panic!("it is an operand") };
            prop_assert!(model.map_or(0, |value| value.len()) <= end.max(existing.map_or(0, |value| value.len())));
        }

        #[test]
        fn any_bytes_are_a_patch_or_an_error(bytes: Vec<u8>, existing: Vec<u8>) {
            match Form::decode(&bytes) {
                Ok(form) => {
                    let again = form.encode();
                    prop_assert_eq!(Form::decode(&again), Ok(form.clone()));
                    prop_assert!(form.pieces.is_sorted_by(|a, b| a.0 + a.1.len() < b.0));
                    if form.end() < 1 << 20 {
                        let _ = Patch.apply(Some(&existing), &bytes);
                    }
                }
                Err(_) => prop_assert!(matches!(Patch.growth(&bytes), Growth::Invalid(_))),
            }
        }
    }

    #[test]
    fn pieces_that_touch_are_one() {
        let joined = join(&[Patch::write(0, b"abc"), Patch::write(6, b"gh"), Patch::write(3, b"def")]).unwrap();
        assert_eq!(joined, Patch::write(0, b"abcdefgh"));
        assert_eq!(joined.len(), 2 + 1 + 1 + 8);
    }
}
