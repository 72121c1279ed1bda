//! Children that damage keeps from being flushed.

use std::sync::Arc;

use super::Change;
use crate::bytes::range::KeyRange;
use crate::error::Error;
use crate::mutant::{Mutant, mutated};
use crate::nodes::node::{Child, Edge};

/// As much as so many nodes may hold waits for a child that cannot be flushed, at most.
const NODES_MAX: u64 = 16;

/// Keys for which as much waits above damage as may.
#[derive(Clone, Debug)]
pub(crate) struct Blocked {
    pub range: KeyRange,
    what: String,
    offset_bytes: u64,
    stored_bytes: u64,
}

impl Blocked {
    /// What whoever adds to it is told.
    pub fn error(&self) -> Error {
        Error::Corrupt {
            what: format!("no more may wait above damage: {}", self.what),
            offset_bytes: self.offset_bytes,
            stored_bytes: self.stored_bytes,
        }
    }
}

/// Whether two edges lead to one node.
fn same(one: &Edge, other: &Edge) -> bool {
    match (one, other) {
        (Edge::Stored(one), Edge::Stored(other)) => one == other,
        (Edge::Fresh(one), Edge::Fresh(other)) => Arc::ptr_eq(one, other),
        _ => false,
    }
}

impl Change<'_> {
    /// Damage kept a child with these keys from being flushed. In this change nobody tries again, and where as much waits as may,
    /// no more is to come.
    pub(super) fn note_stuck(&mut self, child: &Child, range: KeyRange, error: &Error) {
        self.stuck.push(child.edge.clone());
        if child.buffered_bytes() > NODES_MAX * self.shape.buffer_bytes && !mutated(Mutant::DamageWaitsUnbounded) {
            let (what, offset_bytes, stored_bytes) = match error {
                Error::Corrupt { what, offset_bytes, stored_bytes } => (what.clone(), *offset_bytes, *stored_bytes),
                other => (other.to_string(), 0, 0),
            };
            self.blocked.push(Blocked { range, what, offset_bytes, stored_bytes });
        }
    }

    /// Whether damage kept something from moving into a child.
    pub(super) fn is_stuck(&self, child: &Child) -> bool {
        self.stuck.iter().any(|edge| same(edge, &child.edge))
    }
}
