//! How much one kind of operation disturbs another: the measures, and the
//! measurements they are taken from.

mod compare;
mod fio_json;
mod measurement;
mod model;

pub use compare::{CompareError, Interference, LatencyKind, VictimChoice, compare};
pub use fio_json::{FioJsonProblem, Stream, Times, parse as parse_fio_json};
pub use measurement::{Measurement, MeasurementError};
pub use model::{
    InterferenceError, ManagementVictim, Measure, OperationCost, Point, Stall, Victim, Weights, management_victim,
    mean_operation_cost, operation_cost, signed, stall, z, z_tail,
};
pub use workload::zoned::{Operation, UnknownOperation};
