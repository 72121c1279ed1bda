//! What blocks of the storage are once they are read.

use std::sync::Arc;

use crate::bytes::block::Block;
use crate::bytes::page::Page;
use crate::bytes::pages::PageShape;
use crate::bytes::wire::Malformed;
use crate::cache::Cached;
use crate::nodes::node::Node;

/// What a block of the storage is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Block,
    Node,
    /// A part of a block.
    Page(PageShape),
    Value,
}

impl Kind {
    /// What its bytes are.
    pub(super) fn parse(self, raw: Box<[u8]>) -> Result<Cached, Malformed> {
        Ok(match self {
            Self::Block => Cached::Block(Block::of_raw(raw, ())?),
            Self::Node => Cached::Node(Node::of_raw(raw, ())?),
            Self::Page(shape) => Cached::Page(Page::of_raw(raw, shape)?),
            Self::Value => Cached::Value(<[u8]>::of_raw(raw, ())?),
        })
    }
}

/// One kind, by its type.
pub(super) trait Content {
    /// What has to be known of it to make it of its bytes.
    type Shape;

    fn of_raw(raw: Box<[u8]>, shape: Self::Shape) -> Result<Arc<Self>, Malformed>;

    /// It, if that is what is cached.
    fn of_cached(cached: Cached) -> Option<Arc<Self>>;

    fn into_cached(self: Arc<Self>) -> Cached;
}

impl Content for Block {
    type Shape = ();

    fn of_raw(raw: Box<[u8]>, (): ()) -> Result<Arc<Self>, Malformed> {
        Self::parse(raw).map(Arc::new)
    }

    fn of_cached(cached: Cached) -> Option<Arc<Self>> {
        if let Cached::Block(block) = cached { Some(block) } else { None }
    }

    fn into_cached(self: Arc<Self>) -> Cached {
        Cached::Block(self)
    }
}

impl Content for Node {
    type Shape = ();

    fn of_raw(raw: Box<[u8]>, (): ()) -> Result<Arc<Self>, Malformed> {
        Self::decode(&raw).map(Arc::new)
    }

    fn of_cached(cached: Cached) -> Option<Arc<Self>> {
        if let Cached::Node(node) = cached { Some(node) } else { None }
    }

    fn into_cached(self: Arc<Self>) -> Cached {
        Cached::Node(self)
    }
}

impl Content for Page {
    type Shape = PageShape;

    fn of_raw(raw: Box<[u8]>, shape: PageShape) -> Result<Arc<Self>, Malformed> {
        Self::parse(raw, shape).map(Arc::new)
    }

    fn of_cached(cached: Cached) -> Option<Arc<Self>> {
        if let Cached::Page(page) = cached { Some(page) } else { None }
    }

    fn into_cached(self: Arc<Self>) -> Cached {
        Cached::Page(self)
    }
}

/// A value that lies apart.
impl Content for [u8] {
    type Shape = ();

    fn of_raw(raw: Box<[u8]>, (): ()) -> Result<Arc<Self>, Malformed> {
        Ok(raw.into())
    }

    fn of_cached(cached: Cached) -> Option<Arc<Self>> {
        if let Cached::Value(value) = cached { Some(value) } else { None }
    }

    fn into_cached(self: Arc<Self>) -> Cached {
        Cached::Value(self)
    }
}
