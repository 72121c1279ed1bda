//! Proof against the model in memory: random operations, mounts in between, and all that can be seen compared.

mod action;
mod compare;
mod crash;
mod full;
mod side;
mod traces;
