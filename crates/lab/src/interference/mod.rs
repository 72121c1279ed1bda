//! How much one kind of operation disturbs another: the measures, and the
//! measurements they are taken from.

mod model;

pub use model::{
    InterferenceError, ManagementVictim, Measure, OperationCost, Point, Stall, Victim, Weights, management_victim,
    mean_operation_cost, operation_cost, signed, stall, z, z_tail,
};
