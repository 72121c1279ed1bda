//! Pairs of measurements, without and with an interferer, as load points and measures.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use super::Operation;
use super::fio_json::{Stream, Times};
use super::measurement::Measurement;
use super::model::{
    InterferenceError, ManagementVictim, Measure, OperationCost, Point, Stall, Victim, Weights, management_victim,
    mean_operation_cost, operation_cost, signed, stall, z, z_tail,
};

/// Which streams are the victim.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum VictimChoice {
    /// The last stream of the measurement without the interferer: what comes
    /// before it in a job file prepares the device.
    #[default]
    Last,
    /// What does this operation.
    Operation(Operation),
    /// The job of this name.
    Job(String),
}

impl FromStr for VictimChoice {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(text.parse().map_or_else(|_| Self::Job(text.to_owned()), Self::Operation))
    }
}

/// Which latency the percentiles are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LatencyKind {
    /// Total latency, from the decision to issue on: the published choice.
    Total,
    /// Completion latency, where fio ran without `lat_percentiles=1`.
    Completion,
}

impl fmt::Display for LatencyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Total => "total",
            Self::Completion => "completion",
        })
    }
}

/// What came of the comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Interference {
    /// The victim's operation.
    pub victim: Operation,
    /// The interferers' operations, in order.
    pub interferers: Vec<Operation>,
    /// How rate and latency were weighed.
    pub weights: Weights,
    /// Which latency counts.
    pub latency: LatencyKind,
    /// The load points.
    pub points: Vec<Point>,
    /// Z as published.
    pub z: Measure,
    /// The signed form.
    pub signed: Measure,
    /// With P99.9 for P95; absent where not every point knows it.
    pub tail: Option<Measure>,
    /// The longest stalls; absent where not every point knows them.
    pub stall: Option<Stall>,
    /// What one management operation costs the victim, for each point.
    pub costs: Vec<Option<OperationCost>>,
    /// The mean of these.
    pub mean_cost: Option<OperationCost>,
    /// For a reset or finish as the victim: Z against both references.
    pub management: Option<ManagementVictim>,
}

/// Why measurements give no comparison.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// The victim is not in a measurement.
    #[error("{origin}: no {wanted}; it has {present}. Name the victim with --victim, by its job or its operation")]
    NoVictim {
        /// The measurement.
        origin: String,
        /// What was looked for.
        wanted: String,
        /// What is there.
        present: String,
    },
    /// The measure has no value.
    #[error(transparent)]
    Interference(#[from] InterferenceError),
}

/// Compares pairs of (without, with) the interferer, one for each load.
/// `weights` left out: half and half, and the rate alone for a management
/// operation as the victim, as published.
///
/// # Errors
/// When the victim is missing in a measurement, or a value that counts is.
pub fn compare(
    pairs: &[(Measurement, Measurement)],
    choice: &VictimChoice,
    weights: Option<Weights>,
) -> Result<Interference, CompareError> {
    let mut found = Vec::new();
    for (without, with) in pairs {
        let alone = victim_alone(without, choice)?;
        let disturbed = victim_disturbed(with, &alone)?;
        found.push((alone, disturbed, with));
    }
    let Some((first, ..)) = found.first() else { return Err(InterferenceError::NoPoints.into()) };
    let victim = first.operation;
    let all = || found.iter().flat_map(|(alone, disturbed, _)| [alone, disturbed]);
    let total = all().all(|stream| stream.lat.percentile_ns(95.0).is_some());
    let completion = all().all(|stream| stream.clat.percentile_ns(95.0).is_some());
    let latency = if !total && completion { LatencyKind::Completion } else { LatencyKind::Total };
    let weights = weights.unwrap_or(if victim.is_management() { Weights::RATE_ALONE } else { Weights::EVEN });

    let mut interferers: Vec<Operation> = Vec::new();
    let mut points = Vec::new();
    for (alone, disturbed, with) in &found {
        let others = || with.streams.iter().filter(|stream| !is_part_of(stream, disturbed));
        interferers.extend(others().map(|stream| stream.operation));
        let managing: Vec<&Stream> = others().filter(|stream| stream.operation.is_management()).collect();
        points.push(Point {
            load: disturbed.load.clone(),
            without: figures(alone, latency),
            with: figures(disturbed, latency),
            operations_per_s: (!managing.is_empty()).then(|| managing.iter().map(|stream| stream.ops_per_s()).sum()),
        });
    }
    interferers.sort_unstable();
    interferers.dedup();
    let management = if victim.is_management() {
        let loaded: Vec<f64> = points.iter().map(|point| point.with.iops).collect();
        Some(management_victim(points[0].without.iops, &loaded)?)
    } else {
        None
    };
    Ok(Interference {
        victim,
        interferers,
        weights,
        latency,
        z: z(&points, weights)?,
        signed: signed(&points, weights)?,
        tail: z_tail(&points, weights).ok(),
        stall: stall(&points),
        costs: points.iter().map(operation_cost).collect::<Result<_, _>>()?,
        mean_cost: mean_operation_cost(&points)?,
        management,
        points,
    })
}

/// Whether `stream` is a part of `victim`, which may be several put together.
fn is_part_of(stream: &Stream, victim: &Stream) -> bool {
    stream.job == victim.job && stream.operation == victim.operation
}

fn victim_alone(measurement: &Measurement, choice: &VictimChoice) -> Result<Stream, CompareError> {
    let wanted = |stream: &&Stream| match choice {
        VictimChoice::Last => true,
        VictimChoice::Operation(operation) => stream.operation == *operation,
        VictimChoice::Job(job) => stream.job == *job,
    };
    // Of several, the last: those before it prepare the device.
    let found = measurement.streams.iter().rfind(wanted);
    let what = match choice {
        VictimChoice::Last => "stream".to_owned(),
        VictimChoice::Operation(operation) => format!("stream of {operation}s"),
        VictimChoice::Job(job) => format!("job `{job}` with I/O"),
    };
    pooled(measurement, found, what)
}

/// The stream that is the same victim: by job and operation, or else the last
/// one of its operation.
fn victim_disturbed(measurement: &Measurement, alone: &Stream) -> Result<Stream, CompareError> {
    let streams = &measurement.streams;
    let same = streams.iter().rfind(|stream| is_part_of(stream, alone));
    let found = same.or_else(|| streams.iter().rfind(|stream| stream.operation == alone.operation));
    pooled(measurement, found, format!("stream of {}s", alone.operation))
}

/// All streams of the same job and operation as `found`, as one.
fn pooled(measurement: &Measurement, found: Option<&Stream>, wanted: String) -> Result<Stream, CompareError> {
    let parts: Vec<&Stream> =
        measurement.streams.iter().filter(|stream| found.is_some_and(|found| is_part_of(stream, found))).collect();
    Stream::together(&parts).ok_or_else(|| {
        let present: Vec<String> =
            measurement.streams.iter().map(|stream| format!("`{}` ({})", stream.job, stream.operation)).collect();
        CompareError::NoVictim { origin: measurement.origin.clone(), wanted, present: present.join(", ") }
    })
}

fn figures(stream: &Stream, latency: LatencyKind) -> Victim {
    let times: &Times = match latency {
        LatencyKind::Total => &stream.lat,
        LatencyKind::Completion => &stream.clat,
    };
    Victim {
        // A mean of samples skips those without an operation: too high for
        // operations that take longer than a sample.
        iops: if stream.operation.is_management() { stream.ops_per_s() } else { stream.iops_mean },
        p95_ns: times.percentile_ns(95.0),
        p999_ns: times.percentile_ns(99.9),
        max_ns: times.max_ns,
    }
}
