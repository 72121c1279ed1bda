//! Lookups that the kernel has forgotten.

use zerocopy::FromBytes;

use crate::abi::input::ForgetOne;

/// Lookups that are forgotten: nodes with numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forgets<'a> {
    one: Option<(u64, u64)>,
    more: &'a [u8],
}

impl<'a> Forgets<'a> {
    /// Of FORGET.
    pub(super) fn one(node: u64, lookups: u64) -> Self {
        Self { one: Some((node, lookups)), more: &[] }
    }

    /// Of BATCH_FORGET; `None` if there are fewer than `count`.
    pub(super) fn many(count: u32, bytes: &'a [u8]) -> Option<Self> {
        let bytes = bytes.get(..size_of::<ForgetOne>().checked_mul(count as usize)?)?;
        Some(Self { one: None, more: bytes })
    }
}

impl Iterator for Forgets<'_> {
    /// A node, and how many lookups of it.
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        if let Some(one) = self.one.take() {
            return Some(one);
        }
        let (ForgetOne { nodeid, nlookup }, more) = ForgetOne::read_from_prefix(self.more).ok()?;
        self.more = more;
        Some((nodeid, nlookup))
    }
}
