//! Proof by enumeration: what a store leaves at every cut of the power, at every failed request, with every bit turned
//! over, on a full storage; and that each deliberate defect is noticed.

mod below;
mod beside;
mod between;
mod bounds;
mod clones;
mod closed;
mod contained;
mod crash;
mod damage;
mod device;
mod faults;
mod full;
mod grow;
mod live;
mod mutants;
mod mutate;
mod paced;
mod parts;
mod past;
mod ranges;
mod reads;
mod refill;
mod refused;
mod repair;
mod rest;
mod schedules;
mod sizes;
mod tickets;
mod trees;
mod trim;
mod twice;
mod values;
mod views;
mod workload;
