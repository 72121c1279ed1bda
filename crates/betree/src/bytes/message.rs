//! What waits for a key.
//!
//! A key's messages compose: [`Message::over`] makes of a newer and an older one the message that does both. So a
//! buffer needs to keep one message a key, and a value is found by composing what lies on the way down.

use std::borrow::Cow;

use crate::bytes::operator::{Operator, Operators};
use crate::bytes::pointer::BlockPointer;
use crate::bytes::wire::{Malformed, Reader, put_bytes, put_varint};
use crate::error::{Error, Result};
use crate::mutant::{Mutant, mutated};

const INSERT: u8 = 0;
const DELETE: u8 = 1;
const UPSERTS: u8 = 2;
const PLACE: u8 = 3;
/// Bytes from here on begin no message.
pub(crate) const KINDS: u8 = 4;

/// Upserts of one key that wait in a tree, at most: where more come together, they meet their value.
pub(crate) const UPSERTS_MAX: usize = 256;

/// One operand on its way to a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Upsert<'a> {
    pub operator: u16,
    pub operand: Cow<'a, [u8]>,
}

/// What happens to one key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Message<'a> {
    /// The key has this value.
    Insert(Cow<'a, [u8]>),
    /// The key has no value.
    Delete,
    /// These change whatever is there, oldest first.
    Upserts(Vec<Upsert<'a>>),
    /// The key has the value that lies there.
    Place(BlockPointer),
}

/// What it takes to compose messages.
pub(crate) trait Compose {
    fn operators(&self) -> &Operators;

    /// The value that lies at a place.
    fn value_at(&self, pointer: &BlockPointer) -> Result<Vec<u8>>;
}

impl<'a> Message<'a> {
    /// Whether nothing older matters.
    pub fn is_final(&self) -> bool {
        !matches!(self, Self::Upserts(_))
    }

    pub fn into_owned(self) -> Message<'static> {
        let own = |bytes: Cow<'_, [u8]>| Cow::Owned(bytes.into_owned());
        match self {
            Self::Insert(value) => Message::Insert(own(value)),
            Self::Delete => Message::Delete,
            Self::Place(pointer) => Message::Place(pointer),
            Self::Upserts(list) => Message::Upserts(
                list.into_iter().map(|one| Upsert { operator: one.operator, operand: own(one.operand) }).collect(),
            ),
        }
    }

    /// The message that does `older` and then this one.
    ///
    /// # Errors
    ///
    /// When an operator is not registered, or a value that it needs cannot be read.
    pub fn over(self, older: Self, with: &impl Compose) -> Result<Self> {
        match (self, older) {
            (Self::Upserts(newer), Self::Upserts(list)) => {
                let (mut list, newer) = if mutated(Mutant::UpsertsReversed) { (newer, list) } else { (list, newer) };
                for upsert in newer {
                    let joined = match list.last() {
                        Some(last) if last.operator == upsert.operator => {
                            known(with, upsert.operator)?.join(&last.operand, &upsert.operand)
                        }
                        _ => None,
                    };
                    match (joined, list.last_mut()) {
                        (Some(operand), Some(last)) => last.operand = Cow::Owned(operand),
                        _ => list.push(upsert),
                    }
                }
                Ok(Self::Upserts(list))
            }
            (Self::Upserts(newer), Self::Insert(value)) => apply(Some(value), newer, with),
            (Self::Upserts(newer), Self::Place(pointer)) => {
                apply(Some(Cow::Owned(with.value_at(&pointer)?)), newer, with)
            }
            (Self::Upserts(newer), Self::Delete) => apply(None, newer, with),
            (newer, _) => Ok(newer),
        }
    }

    /// What messages of one key come to, newest first: in time that grows with their number and its logarithm, not with its
    /// square.
    ///
    /// # Errors
    ///
    /// As [`Message::over`].
    pub fn fold(newest_first: Vec<Self>, with: &impl Compose) -> Result<Option<Self>> {
        let mut base = None;
        let mut upserts = Vec::new();
        for message in newest_first.into_iter().rev() {
            match message {
                Self::Upserts(list) => upserts.extend(list),
                last => {
                    base = Some(last);
                    upserts.clear();
                }
            }
        }
        if upserts.is_empty() {
            return Ok(base);
        }
        let upserts = Self::Upserts(join_all(upserts, with)?);
        match base {
            None => Ok(Some(upserts)),
            Some(base) => upserts.over(base, with).map(Some),
        }
    }

    /// The message over a key that has no value: always final.
    ///
    /// # Errors
    ///
    /// When an operator is not registered.
    pub fn over_nothing(self, with: &impl Compose) -> Result<Self> {
        self.over(Self::Delete, with)
    }

    /// Where its value lies, if it lies apart.
    pub fn place(&self) -> Option<BlockPointer> {
        match self {
            Self::Place(pointer) => Some(*pointer),
            _ => None,
        }
    }

    /// Bytes of what it carries.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Insert(value) => value.len(),
            Self::Delete => 0,
            Self::Place(_) => BlockPointer::ENCODED_BYTES,
            Self::Upserts(list) => list.iter().map(|one| one.operand.len() + 32).sum(),
        }
    }

    pub fn encode(&self, to: &mut Vec<u8>) {
        match self {
            Self::Insert(value) => {
                to.push(INSERT);
                put_bytes(to, value);
            }
            Self::Delete => to.push(DELETE),
            Self::Place(pointer) => {
                to.push(PLACE);
                pointer.encode(to);
            }
            Self::Upserts(list) => {
                to.push(UPSERTS);
                put_varint(to, list.len() as u64);
                for one in list {
                    put_varint(to, u64::from(one.operator));
                    put_bytes(to, &one.operand);
                }
            }
        }
    }

    /// The same for somebody who does not keep it.
    pub fn borrowed(&self) -> Message<'_> {
        match self {
            Self::Insert(value) => Message::Insert(Cow::Borrowed(value)),
            other => other.clone(),
        }
    }

    /// Goes past a message, which is checked as if it were decoded.
    #[inline]
    pub fn check(from: &mut Reader<'a>) -> Result<(), Malformed> {
        let mut ahead = *from;
        if ahead.u8()? == INSERT {
            ahead.bytes()?;
            *from = ahead;
            return Ok(());
        }
        Self::decode(from).map(drop)
    }

    #[inline]
    pub fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        match from.u8()? {
            INSERT => Ok(Self::Insert(Cow::Borrowed(from.bytes()?))),
            DELETE => Ok(Self::Delete),
            PLACE => Ok(Self::Place(BlockPointer::decode(from)?)),
            UPSERTS => {
                let mut list = Vec::new();
                for _ in 0..from.count(2)? {
                    let operator = u16::try_from(from.varint()?).map_err(|_| Malformed("an operator has no number"))?;
                    list.push(Upsert { operator, operand: Cow::Borrowed(from.bytes()?) });
                }
                if list.is_empty() { Err(Malformed("upserts without one")) } else { Ok(Self::Upserts(list)) }
            }
            _ => Err(Malformed("a message has no kind")),
        }
    }
}

fn known(with: &impl Compose, id: u16) -> Result<&dyn Operator> {
    with.operators().get(id).ok_or(Error::UnknownOperator { id })
}

/// The same with as few operands as can be had by joining neighbours, round by round, so that each is copied a number of
/// times that grows with the logarithm of theirs.
fn join_all<'a>(upserts: Vec<Upsert<'a>>, with: &impl Compose) -> Result<Vec<Upsert<'a>>> {
    let mut upserts = upserts;
    loop {
        let before = upserts.len();
        let mut joined: Vec<Upsert<'a>> = Vec::with_capacity(before);
        let mut rest = upserts.into_iter().peekable();
        while let Some(one) = rest.next() {
            let next = match rest.peek() {
                Some(next) if next.operator == one.operator => {
                    known(with, one.operator)?.join(&one.operand, &next.operand)
                }
                _ => None,
            };
            joined.push(match next {
                Some(operand) => {
                    rest.next();
                    Upsert { operand: Cow::Owned(operand), ..one }
                }
                None => one,
            });
        }
        upserts = joined;
        if upserts.len() == before {
            return Ok(upserts);
        }
    }
}

fn apply<'a>(value: Option<Cow<'a, [u8]>>, upserts: Vec<Upsert<'a>>, with: &impl Compose) -> Result<Message<'a>> {
    let mut value = value;
    for one in upserts {
        value = known(with, one.operator)?.apply(value.as_deref(), &one.operand).map(Cow::Owned);
    }
    Ok(value.map_or(Message::Delete, Message::Insert))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::operator::{Add, Append, Patch};
    use proptest::prelude::*;
    use std::sync::Arc;

    /// Where no value lies apart.
    impl Compose for Operators {
        fn operators(&self) -> &Operators {
            self
        }

        fn value_at(&self, pointer: &BlockPointer) -> Result<Vec<u8>> {
            unreachable!("{pointer:?}")
        }
    }

    /// What a message comes to where there is nothing below.
    fn value(message: Message<'_>) -> Option<Vec<u8>> {
        match message.over_nothing(&operators()).unwrap() {
            Message::Insert(value) => Some(value.into_owned()),
            _ => None,
        }
    }

    fn operators() -> Operators {
        let mut operators = Operators::default();
        operators.register(1, Arc::new(Add));
        operators.register(2, Arc::new(Append));
        operators.register(3, Arc::new(Patch));
        operators
    }

    fn message() -> impl Strategy<Value = Message<'static>> {
        let bytes = prop::collection::vec(any::<u8>(), 0..10);
        let upsert =
            (1u16..3, bytes.clone()).prop_map(|(operator, operand)| Upsert { operator, operand: Cow::Owned(operand) });
        let patch = prop_oneof![
            3 => (0usize..12, bytes.clone()).prop_map(|(offset, bytes)| Patch::write(offset, &bytes)),
            1 => (0usize..16).prop_map(Patch::cut),
        ];
        let patch = patch.prop_map(|operand| Upsert { operator: 3, operand: Cow::Owned(operand) });
        let upsert = prop_oneof![upsert, patch];
        prop_oneof![
            bytes.prop_map(|value| Message::Insert(Cow::Owned(value))),
            Just(Message::Delete),
            prop::collection::vec(upsert, 1..4).prop_map(Message::Upserts),
        ]
    }

    proptest! {
        /// However the messages of a key are put together, the value is the same.
        #[test]
        fn composition_is_associative(messages in prop::collection::vec(message(), 1..8), cut in 0usize..8) {
            let with = operators();
            let fold = |list: &[Message<'static>]| {
                list.iter().cloned().reduce(|older, newer| newer.over(older, &with).unwrap())
            };
            let whole = value(fold(&messages).unwrap());
            let (older, newer) = messages.split_at(cut.min(messages.len()));
            let halves = match (fold(older), fold(newer)) {
                (Some(older), Some(newer)) => newer.over(older, &with).unwrap(),
                (one, other) => one.or(other).unwrap(),
            };
            prop_assert_eq!(value(halves), whole.clone());
            // And as a caller would do it, one after the other.
            let mut last: Option<Vec<u8>> = None;
            for message in &messages {
                let below = last.map_or(Message::Delete, |value| Message::Insert(Cow::Owned(value)));
                last = value(message.clone().over(below, &with).unwrap());
            }
            prop_assert_eq!(&last, &whole);
            let at_once = Message::fold(messages.iter().rev().cloned().collect(), &with).unwrap();
            prop_assert_eq!(value(at_once.unwrap()), whole);
        }

        #[test]
        fn encoded_messages_come_back(message in message()) {
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(Message::decode(&mut reader).unwrap(), message);
            prop_assert!(reader.end().is_ok());
        }

        #[test]
        fn any_bytes_are_a_message_or_an_error(bytes: Vec<u8>) {
            let _ = Message::decode(&mut Reader::new(&bytes));
        }
    }

    #[test]
    fn an_unknown_operator_is_an_error() {
        let upsert = Message::Upserts(vec![Upsert { operator: 9, operand: Cow::Borrowed(b"") }]);
        let with = operators();
        assert!(matches!(upsert.over_nothing(&with), Err(Error::UnknownOperator { id: 9 })));
    }
}
