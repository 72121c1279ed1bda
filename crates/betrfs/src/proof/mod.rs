//! Proof against the model in memory: random operations, mounts in between, and all that can be seen compared;
//! at every cut of the power, on a full device; and that each deliberate defect is noticed.

mod action;
mod between;
mod cases;
mod clones;
mod compare;
mod crash;
mod damage;
mod far;
mod faults;
mod full;
mod full_at_once;
mod mutants;
mod no_room;
mod paths;
mod refused;
mod side;
mod traces;
