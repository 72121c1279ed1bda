//! Values that are looked at where the cache has them.

use std::ops::Deref;
use std::sync::Arc;

/// A value to look at. One that lies apart is the cache's own, and nobody copies it; it stays in memory for as long as somebody
/// holds it, beside what the cache may have. A smaller one is copied out of its block, once. A clone copies nothing of the former.
#[derive(Clone, Debug)]
pub struct SharedValue(Held);

#[derive(Clone, Debug)]
enum Held {
    Own(Vec<u8>),
    Cached(Arc<[u8]>),
}

impl SharedValue {
    pub(crate) fn own(value: Vec<u8>) -> Self {
        Self(Held::Own(value))
    }

    pub(crate) fn cached(value: Arc<[u8]>) -> Self {
        Self(Held::Cached(value))
    }
}

impl Deref for SharedValue {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Held::Own(value) => value,
            Held::Cached(value) => value,
        }
    }
}

impl AsRef<[u8]> for SharedValue {
    fn as_ref(&self) -> &[u8] {
        self
    }
}
