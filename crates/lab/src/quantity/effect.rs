//! What an interferer does to a victim.

use crate::interference::{self, Point as LoadPoint, Weights};

/// The ways to say what an interferer does (see [`crate::interference`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The published Z.
    Z,
    /// Z against the first load point instead of the victim alone: what was
    /// published for management operations as victims.
    ZFirstLoad,
    /// Z with its sign: negative where the victim gained.
    Signed,
    /// Z of the rate and the p99.9 latency.
    Tail,
    /// The victim's longest latency with the interferer.
    Stall,
    /// The victim's longest latency without it.
    StallAlone,
    /// The time for which one operation of the interferer stops the victim.
    PerOperation,
    /// The victim's operations lost to one of the interferer's.
    LostIos,
    /// Operations of the interferer a second, over the load points.
    Operations,
}

impl Effect {
    /// Those that tables show, in reading order.
    pub const SHOWN: [Self; 7] =
        [Self::Z, Self::Signed, Self::Tail, Self::StallAlone, Self::Stall, Self::Operations, Self::PerOperation];

    pub(super) const ALL: [Self; 9] = [
        Self::Z,
        Self::ZFirstLoad,
        Self::Signed,
        Self::Tail,
        Self::Stall,
        Self::StallAlone,
        Self::PerOperation,
        Self::LostIos,
        Self::Operations,
    ];

    /// What follows `interference.` in its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Z => "z",
            Self::ZFirstLoad => "z_first_load",
            Self::Signed => "signed",
            Self::Tail => "tail",
            Self::Stall => "stall_ms",
            Self::StallAlone => "stall_alone_ms",
            Self::PerOperation => "per_operation_ms",
            Self::LostIos => "lost_ios",
            Self::Operations => "operations_per_s",
        }
    }

    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Z => "Interference Z",
            Self::ZFirstLoad => "Z against the first load",
            Self::Signed => "Signed interference",
            Self::Tail => "Tail interference (p99.9)",
            Self::Stall => "Longest stall",
            Self::StallAlone => "Longest latency alone",
            Self::PerOperation => "Cost of one operation",
            Self::LostIos => "Requests lost to one operation",
            Self::Operations => "Interfering operations",
        }
    }

    /// The effect over load points; `None` where it cannot be told.
    pub(super) fn of(self, loads: &[LoadPoint], weights: Weights) -> Option<f64> {
        let measure = |result: Result<interference::Measure, _>| result.ok().map(|measure| measure.mean);
        match self {
            Self::Z => measure(interference::z(loads, weights)),
            Self::Signed => measure(interference::signed(loads, weights)),
            Self::Tail => measure(interference::z_tail(loads, weights)),
            Self::ZFirstLoad => {
                let without = &loads.first()?.with;
                let against: Vec<_> =
                    loads.iter().map(|load| LoadPoint { without: *without, ..load.clone() }).collect();
                measure(interference::z(&against, weights))
            }
            Self::Stall => Some(interference::stall(loads)?.with_ns / 1e6),
            Self::StallAlone => Some(interference::stall(loads)?.without_ns / 1e6),
            Self::PerOperation => Some(interference::mean_operation_cost(loads).ok()??.stall_ns / 1e6),
            Self::LostIos => Some(interference::mean_operation_cost(loads).ok()??.lost_ios),
            Self::Operations => {
                let rates: Vec<f64> = loads.iter().filter_map(|load| load.operations_per_s).collect();
                (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
            }
        }
    }
}
