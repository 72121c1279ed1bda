//! When a programmed unit may be mapped.
//!
//! A version of a unit in the write buffer is programmed, then mapped; from then
//! on it is what flash has of the unit, and the journal makes it survive. An
//! order says when. A version whose turn has not come is *delayed*: it stays in
//! the buffer, the unit keeps its place, and both physical units are valid. Each
//! order is a file that looks and returns a plan, and a line in [`Order`].

mod immediate;
mod streams;

use crash::order::Places;

pub(crate) use immediate::Immediate;
#[cfg(test)]
pub(crate) use streams::Defect;
pub(crate) use streams::Streams;

/// What becomes of a version that is programmed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Plan {
    /// It is mapped.
    Map,
    /// It waits until `next_ready` gives it out.
    Delay,
}

/// An order in which versions are mapped.
pub(crate) trait MappingOrder {
    /// A version that belongs to `places` is accepted into the buffer. What it
    /// does not hold of its unit is that of the version `below`, if that is one.
    fn accepted(&mut self, version: u32, places: &Places, below: u32);

    /// Whether a write of these places that is accepted now may go into a version
    /// that waits in the buffer, and so be mapped with it.
    fn may_coalesce(&self, version: u32, places: &Places) -> bool;

    /// An accepted version is programmed.
    fn programmed(&mut self, version: u32) -> Plan;

    /// Nobody needs an accepted version any more: it will not be mapped. Again
    /// for the same one changes nothing.
    fn dropped(&mut self, version: u32);

    /// Gives out a delayed version whose turn has come.
    fn next_ready(&mut self) -> Option<u32>;

    /// A stream begins, with epoch 0. No other ever has its number.
    fn opened(&mut self, stream: u64);

    /// An epoch of a stream is complete: all versions that it will ever have are accepted.
    fn completed(&mut self, stream: u64, epoch: u64);

    /// Nothing more of a stream will be accepted.
    fn closed(&mut self, stream: u64);

    /// The first epoch of a stream of which something is not mapped, or may still come; `None` where that is no stream under way.
    fn first_epoch(&self, stream: u64) -> Option<u64>;

    /// Memory that its tables take.
    fn memory_bytes(&self) -> u64;

    /// Forgets every version and every stream, as after a power cut.
    fn clear(&mut self);
}

/// The order of a device. Known where it is compiled, so that the one that does nothing costs next to nothing.
pub(crate) enum Order {
    Immediate(Immediate),
    Streams(Box<Streams>),
}

impl Order {
    #[inline]
    pub fn get(&self) -> &dyn MappingOrder {
        match self {
            Self::Immediate(order) => order,
            Self::Streams(order) => &**order,
        }
    }
}

/// The same method of whichever order it is, called without a table of methods.
macro_rules! of_either {
    ($self:ident, $order:ident => $call:expr) => {
        match $self {
            Self::Immediate($order) => $call,
            Self::Streams($order) => $call,
        }
    };
}

impl Order {
    #[inline]
    pub fn accepted(&mut self, version: u32, places: &Places, below: u32) {
        of_either!(self, order => order.accepted(version, places, below));
    }

    #[inline]
    pub fn may_coalesce(&self, version: u32, places: &Places) -> bool {
        of_either!(self, order => order.may_coalesce(version, places))
    }

    #[inline]
    pub fn programmed(&mut self, version: u32) -> Plan {
        of_either!(self, order => order.programmed(version))
    }

    #[inline]
    pub fn dropped(&mut self, version: u32) {
        of_either!(self, order => order.dropped(version));
    }

    #[inline]
    pub fn next_ready(&mut self) -> Option<u32> {
        of_either!(self, order => order.next_ready())
    }

    #[inline]
    pub fn clear(&mut self) {
        of_either!(self, order => order.clear());
    }

    pub fn opened(&mut self, stream: u64) {
        of_either!(self, order => order.opened(stream));
    }

    pub fn completed(&mut self, stream: u64, epoch: u64) {
        of_either!(self, order => order.completed(stream, epoch));
    }

    pub fn closed(&mut self, stream: u64) {
        of_either!(self, order => order.closed(stream));
    }
}
