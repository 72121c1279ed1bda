//! Everything that holds of the device models, in one program: each file is a module. A program of its own
//! for each would be linked a dozen times over.
#![allow(clippy::unwrap_used)]

mod card;
mod closed_forms;
mod common;
mod confznspp;
mod contents;
mod depth;
mod digits;
mod disk;
mod live_state;
mod options;
mod ordering;
mod profile_reference;
mod profile_text;
mod profiles;
mod profiles_power;
mod unfitted;
mod unseen;
mod write_amplification;
mod zn540;
mod zn540_stalls;
mod zoned_accounts;
mod zoned_buffer;
mod zoned_config;
mod zoned_emulator;
mod zoned_events;
mod zoned_namespaces;
