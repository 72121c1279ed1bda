//! Composing with what is on the storage.

use std::sync::Arc;

use super::BlockIo;
use super::ahead::ReadAhead;
use crate::bytes::block::Block;
use crate::bytes::message::{Compose, Message};
use crate::bytes::operator::Operators;
use crate::bytes::pointer::BlockPointer;
use crate::error::Result;
use crate::nodes::node::{Edge, Node};
use crate::nodes::run::Part;

/// What it takes to compose messages: the operators, and the values that lie apart.
#[derive(Clone, Copy)]
pub(crate) struct Composer<'a> {
    pub io: &'a BlockIo,
    pub operators: &'a Operators,
    /// What is read before it is needed.
    pub ahead: Option<&'a ReadAhead>,
}

impl<'a> Composer<'a> {
    pub fn new(io: &'a BlockIo, operators: &'a Operators) -> Self {
        Self { io, operators, ahead: None }
    }

    /// Whether what is read is for somebody who may want a few entries, and no more.
    pub fn begins(&self) -> bool {
        self.ahead.is_some_and(ReadAhead::begins)
    }

    /// The reader has gone through so many bytes and goes on.
    pub fn go_on(&self, bytes: usize) {
        self.ahead.into_iter().for_each(|ahead| ahead.go_on(bytes as u64));
    }

    /// The block behind a part.
    pub fn block(&self, part: &Part) -> Result<Arc<Block>> {
        if let (Some(ahead), Part::Stored(pointer)) = (self.ahead, part) {
            ahead.need(self.io, pointer);
        }
        self.io.block(part)
    }

    /// The node behind an edge.
    pub fn node(&self, edge: &Edge) -> Result<Arc<Node>> {
        if let (Some(ahead), Edge::Stored(pointer)) = (self.ahead, edge) {
            ahead.need(self.io, pointer);
        }
        self.io.node(edge)
    }

    /// The value that a message comes to where there is nothing below.
    pub fn value(&self, message: Message<'_>) -> Result<Option<Vec<u8>>> {
        match message.over_nothing(self)? {
            Message::Insert(value) => Ok(Some(value.into_owned())),
            Message::Place(pointer) => Ok(Some(self.value_at(&pointer)?)),
            Message::Delete | Message::Upserts(_) => Ok(None),
        }
    }

    /// The same, to look at where it lies.
    pub fn look_at<T>(&self, message: Message<'_>, look: impl FnOnce(Option<&[u8]>) -> T) -> Result<T> {
        let last = if message.is_final() { message } else { message.over_nothing(self)? };
        Ok(match last {
            Message::Insert(value) => look(Some(&value)),
            Message::Place(pointer) => {
                self.ahead.into_iter().for_each(|ahead| ahead.need(self.io, &pointer));
                look(Some(&self.io.value(&pointer)?))
            }
            Message::Delete | Message::Upserts(_) => look(None),
        })
    }
}

impl Compose for Composer<'_> {
    fn operators(&self) -> &Operators {
        self.operators
    }

    fn value_at(&self, pointer: &BlockPointer) -> Result<Vec<u8>> {
        self.ahead.into_iter().for_each(|ahead| ahead.need(self.io, pointer));
        Ok(self.io.value(pointer)?.to_vec())
    }
}
