//! Small programs that studies of storage run: workloads as their papers define them, on real files.
//!
//! [`ace`] is the enumeration of short workloads with which file systems are searched for faults of crash consistency.

pub mod ace;
