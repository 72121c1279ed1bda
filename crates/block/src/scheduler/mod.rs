//! I/O schedulers (`struct elevator_mq_ops`): which waiting request goes next.
//!
//! A scheduler holds the requests that wait to be dispatched. It decides which
//! goes next and which a new bio may join; tags, hardware queues and the flush
//! machine are the queue's business. Each is a file with its name and what it
//! knows of a request; its tunables are in [`settings`], and [`kind`] is the table.

mod interface;
mod kind;
mod mq_deadline;
mod none;
mod per_request;
pub(crate) mod settings;
mod zinc;

#[cfg(test)]
mod bench;

pub(crate) use interface::{Position, Scheduler};
pub use settings::{MqDeadlineConfig, SchedulerKind, ZincClassConfig, ZincConfig};
