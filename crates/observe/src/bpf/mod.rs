//! Small BPF programs at tracepoints, and the maps in which they leave what they count.
//!
//! A [`Program`] is put together instruction by instruction, with the offsets that a tracepoint's
//! [`Format`](crate::tracefs::Format) gives on this kernel, and [`attach`]ed. So neither building nor running needs clang, libelf,
//! or the kernel's headers or type information.

mod arrays;
mod assembler;
mod maps;
mod program;
mod ring;
mod sys;

pub use arrays::{Array, Arrays, Mapped};
pub use assembler::{Helper, Label, NOEXIST, Program, Register};
pub use maps::{Map, MapKind, maps_grow};
pub use program::{Attached, attach};
pub use ring::Ring;
