//! The Linux multi-queue block layer (blk-mq), in the model.
//!
//! Bios go in, NVMe commands come out: plugging, merging, splitting, software
//! and hardware queues with tags, I/O schedulers, zone write plugging, and the
//! flush state machine.
//! The rules are those of Linux 6.12; each module names the kernel file it follows.
//!
//! The path of a bio, module by module:
//!
//! 1. [`BlockDevice`] takes it; `queue` checks it (`check`), cuts it at the [`Limits`],
//!    tries to merge it (`pool`), lets it wait while what it must not overtake is
//!    on its way (`gate`: `zones`, and of ordered writes `streams` or `barrier_single_queue`), and makes a request of it once a tag is free
//!    (`hctx`), waiting in line otherwise.
//! 2. A request with PREFLUSH or FUA that the device cannot honour alone goes
//!    through `flush`; one submitted through a [`Plug`] is held back; any other
//!    goes to the scheduler (`scheduler`: `none`, `mq_deadline`, `zinc`) or straight on.
//! 3. `dispatch` gives it to the device as a command (`driver`), and ends its
//!    bios when the command does.
//!
//! No file is imported by what it imports: `bio`, `order` and `ordering`, `config`, `limits`, `request`, `pool`, then gates,
//! schedulers, `flush` and `hctx`, then `queue`, with `check`, `dispatch`, `passing` and `plug` as parts of it, then `device`.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod bio;
mod check;
mod config;
mod device;
mod dispatch;
mod driver;
mod flush;
mod gate;
mod hctx;
mod limits;
#[cfg(test)]
mod mutant;
mod order;
mod ordering;
mod passing;
mod plug;
mod plug_list;
mod pool;
mod queue;
mod report;
mod request;
mod scheduler;
mod slab;
mod statistics;

pub use bio::{Bio, BioFlags, BioOp, BioResult, Closes, OrderRequest, Owner, Sector, ZoneOp};
pub use config::{NoMerges, QueueConfig};
pub use device::{BioFuture, BlockDevice};
pub use limits::{Limits, ZoneLimits};
pub use ordering::{EpochKind, OrderStatistics, Ordering, OrderingInForce, StreamPolicyKind, StreamsConfig};
pub use plug::Plug;
pub use report::Zone;
pub use scheduler::{MqDeadlineConfig, SchedulerKind, ZincClassConfig, ZincConfig};
pub use statistics::{Dispatched, HardwareQueueStatistics, Statistics};
