//! Changes of trees that happen together or not at all, and how the log has them.

use crate::bytes::message::{KINDS, Message};
use crate::bytes::range::{Key, KeyRange};
use crate::bytes::tree_id::TreeId;
use crate::bytes::wire::{Malformed, Reader, put_bytes, put_varint};
use crate::catalog::decode_name;

// Other changes begin with a message.
const CREATE: u8 = KINDS;
const RANGE: u8 = KINDS + 1;

/// One change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    CreateTree { tree: TreeId, name: String },
    Point { tree: TreeId, key: Key, message: Message<'static> },
    DeleteRange { tree: TreeId, range: KeyRange },
}

/// What must be true for a batch to happen.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    pub tree: TreeId,
    pub key: Key,
    pub value: Option<Vec<u8>>,
}

/// Changes of one or several trees, in order, and what must be true for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    pub list: Vec<Change>,
    pub conditions: Vec<Condition>,
}

/// Puts a batch whose first change has sequence number `first_msn` into a log payload. The numbers of what is there end before
/// it.
pub(crate) fn encode(changes: &[Change], first_msn: u64, to: &mut Vec<u8>) {
    if to.is_empty() {
        put_varint(to, first_msn);
    }
    put_varint(to, changes.len() as u64);
    for change in changes {
        match change {
            Change::CreateTree { tree, name } => {
                to.push(CREATE);
                put_varint(to, u64::from(tree.0));
                put_bytes(to, name.as_bytes());
            }
            Change::Point { tree, key, message } => {
                message.encode(to);
                put_varint(to, u64::from(tree.0));
                put_bytes(to, key);
            }
            Change::DeleteRange { tree, range } => {
                to.push(RANGE);
                put_varint(to, u64::from(tree.0));
                put_bytes(to, &range.start);
                to.push(u8::from(range.end.is_some()));
                if let Some(end) = &range.end {
                    put_bytes(to, end);
                }
            }
        }
    }
}

/// The batches of a log payload, each with its first sequence number.
pub(crate) struct Batches<'a> {
    from: Reader<'a>,
    /// Of the next change; none where the payload ends or does not decode.
    next_msn: Option<u64>,
}

impl<'a> Batches<'a> {
    pub fn of(payload: &'a [u8]) -> Self {
        let mut from = Reader::new(payload);
        let next_msn = if payload.is_empty() { None } else { Some(from.varint().unwrap_or(u64::MAX)) };
        Self { from, next_msn }
    }

    fn batch(&mut self, first_msn: u64) -> Result<Vec<Change>, Malformed> {
        let count = self.from.count(3)?;
        self.next_msn = Some(first_msn.checked_add(count as u64).ok_or(Malformed("a message has no number"))?);
        (0..count).map(|_| decode(&mut self.from)).collect()
    }
}

impl Iterator for Batches<'_> {
    type Item = Result<(u64, Vec<Change>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let first_msn = self.next_msn.take().filter(|_| self.from.remaining() > 0)?;
        let changes = self.batch(first_msn);
        if changes.is_err() {
            self.next_msn = None;
        }
        Some(changes.map(|changes| (first_msn, changes)))
    }
}

fn decode(from: &mut Reader<'_>) -> Result<Change, Malformed> {
    let tree = |from: &mut Reader<'_>| {
        from.varint()
            .and_then(|number| u32::try_from(number).map_err(|_| Malformed("a tree has no number")))
            .map(TreeId)
    };
    let mut ahead = *from;
    let kind = ahead.u8()?;
    if kind < KINDS {
        let message = Message::decode(from)?.into_owned();
        return Ok(Change::Point { tree: tree(from)?, key: from.bytes()?.into(), message });
    }
    *from = ahead;
    let tree = tree(from)?;
    match kind {
        CREATE => Ok(Change::CreateTree { tree, name: decode_name(from)? }),
        RANGE => {
            let start = from.bytes()?.into();
            let end = if from.u8()? == 0 { None } else { Some(from.bytes()?.into()) };
            Ok(Change::DeleteRange { tree, range: KeyRange::new(start, end) })
        }
        _ => Err(Malformed("a change has no kind")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::borrow::Cow;

    fn change() -> impl Strategy<Value = Change> {
        let bytes = || prop::collection::vec(any::<u8>(), 0..9);
        let tree = any::<u32>().prop_map(TreeId);
        prop_oneof![
            (tree.clone(), "[a-z]{0,9}").prop_map(|(tree, name)| Change::CreateTree { tree, name }),
            (tree.clone(), bytes(), bytes()).prop_map(|(tree, key, value)| {
                Change::Point { tree, key: key.into(), message: Message::Insert(Cow::Owned(value)) }
            }),
            (tree, bytes(), prop::option::of(bytes())).prop_map(|(tree, start, end)| {
                Change::DeleteRange { tree, range: KeyRange::new(start.into(), end.map(Into::into)) }
            }),
        ]
    }

    proptest! {
        #[test]
        fn batches_come_back(first_msn in 0u64..1 << 60, batches in prop::collection::vec(prop::collection::vec(change(), 0..5), 0..4)) {
            let (mut bytes, mut msn, mut numbered) = (Vec::new(), first_msn, Vec::new());
            for changes in batches {
                encode(&changes, msn, &mut bytes);
                let count = changes.len() as u64;
                numbered.push((msn, changes));
                msn += count;
            }
            prop_assert_eq!(Batches::of(&bytes).collect::<Result<Vec<_>, _>>().unwrap(), numbered);
        }

        #[test]
        fn any_bytes_are_a_batch_or_an_error(bytes: Vec<u8>) {
            prop_assert!(Batches::of(&bytes).count() <= bytes.len());
        }
    }
}
