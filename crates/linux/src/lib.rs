//! A real Linux kernel in virtual time.
//!
//! User-Mode Linux is Linux as an ordinary process; in its time-travel mode the
//! processor costs nothing and the clock jumps to the next timer. A modelled
//! device served inside it shows its latencies to the kernel's own drivers,
//! file systems and any program, the same on every machine.
#![cfg_attr(test, allow(clippy::unwrap_used))]
