//! Every short workload of file-system calls and persistence points, within bounds.
//!
//! After ACE (Mohan, Martinez, Ponnapalli, Raju, Chidambaram, "Finding Crash-Consistency Bugs with Bounded Black-Box Crash
//! Testing", OSDI 2018, sections 4 and 5): a sequence of one or two operations on a small set of files and folders, with a
//! persistence point after the last one, and after the first one or not. The bounds are in [`space`]; they are ours where the
//! paper leaves them open, and so are the counts. What a workload needs is made before it ([`Prepared`]), and is durable
//! before its first operation or not.
//!
//! Each runs in a folder of its own, whose name has the workload's number, and is removed after it.

mod operation;
mod run;
pub mod space;
mod workload;

pub use operation::{Allocation, Operation, Persist, Write};
pub use run::{Outcome, RunError, run};
pub use workload::{Prepared, Selection, Workload, workloads};
