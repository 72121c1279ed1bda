//! What a power cut may leave of an ext4, judged without a kernel, a million states at a time.
//!
//! A recorded [`Log`](crash::Log) of a device under a real kernel's ext4 goes in. Each state is a few blocks over the one before
//! (`disk`); what differs in nothing that recovery looks at is judged once:
//!
//! 1. The journal is replayed (`journal`), from what it holds to what the file system's metadata is then.
//! 2. Each distinct metadata is read by the crate `ext4-view` (`view`), and recovered and checked by e2fsck on a copy in memory
//!    (`fsck`), with the kernel's own code for the journal. The files that both recoveries leave must be the same.
//! 3. The files, with the contents that this state's data has, are held against what fsync and its like promised
//!    ([`crash::files`]).
//! 4. Where the caller has scripts for it (`scripts`), the files are laid out on this machine (`laid_out`), and the scripts look.
//!
//! What cannot be read here is never good: it is counted and named, for the kernel to judge. [`judge`] goes through all of it on
//! several threads, and goes on where an earlier call was stopped.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod disk;
mod error;
mod fsck;
mod inode;
mod journal;
mod laid_out;
mod layout;
mod look;
mod parts;
mod run;
mod scripts;
mod view;

pub use error::{OfflineError, Unreadable};
pub use look::Defect;
pub use parts::{Bad, Counts, Judged};
pub use run::{Judgement, Progress, judge};
pub use scripts::Scripts;
