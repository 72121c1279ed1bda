//! Everything that holds of jobs, traces and their runs, in one program: each file is a module. A program of its own
//! for each would be linked a dozen times over.
#![allow(clippy::unwrap_used)]

mod common;
mod fio_fragments;
mod fio_generate;
mod fio_output;
mod fio_parse;
mod fio_run;
mod fio_scale;
mod journal;
mod trace_fio;
mod trace_formats;
mod trace_replay;
mod trace_roundtrip;
mod zones_device;
mod zones_sequence;
