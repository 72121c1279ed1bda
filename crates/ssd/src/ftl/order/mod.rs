//! When a programmed unit may be mapped.
//!
//! A version of a unit in the write buffer is programmed, then mapped; from then
//! on it is what flash has of the unit, and the journal makes it survive. An
//! order says when. A version whose turn has not come is *delayed*: it stays in
//! the buffer, the unit keeps its place, and both physical units are valid. Each
//! order is a file that looks and returns a plan, and a line in [`Order`].

#[cfg(test)]
mod acceptance;
mod immediate;

#[cfg(test)]
pub(crate) use acceptance::{Defect, InOrderOfAcceptance};
pub(crate) use immediate::Immediate;

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
    /// A version is accepted into the buffer.
    fn accepted(&mut self, version: u32);

    /// Whether a write that is accepted now may go into a version that waits in
    /// the buffer, and so be mapped with it.
    fn may_coalesce(&self, version: u32) -> bool;

    /// An accepted version is programmed.
    fn programmed(&mut self, version: u32) -> Plan;

    /// Nobody needs an accepted version any more: it will not be mapped. Again
    /// for the same one changes nothing.
    fn dropped(&mut self, version: u32);

    /// Gives out a delayed version whose turn has come.
    fn next_ready(&mut self) -> Option<u32>;

    /// Forgets every version, as after a power cut.
    fn clear(&mut self);
}

/// The order of a device. Known where it is compiled, so that the one that does nothing costs nothing.
pub(crate) enum Order {
    Immediate(Immediate),
    #[cfg(test)]
    Acceptance(InOrderOfAcceptance),
}

impl Order {
    #[inline]
    pub fn get(&self) -> &dyn MappingOrder {
        match self {
            Self::Immediate(order) => order,
            #[cfg(test)]
            Self::Acceptance(order) => order,
        }
    }

    #[inline]
    pub fn get_mut(&mut self) -> &mut dyn MappingOrder {
        match self {
            Self::Immediate(order) => order,
            #[cfg(test)]
            Self::Acceptance(order) => order,
        }
    }
}
