//! The bytes of blocks: what they are made of, below everything that reads or writes them.

pub(crate) mod block;
pub(crate) mod filter;
pub(crate) mod message;
pub(crate) mod operator;
pub(crate) mod order;
pub(crate) mod page;
pub(crate) mod pages;
pub(crate) mod parts;
pub(crate) mod pointer;
pub(crate) mod range;
pub(crate) mod tree_id;
pub(crate) mod wire;
