//! Two streams of commands, compared.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use ssd::command_log::CommandRecord;

use super::case::Comparing;
use super::step::{Order, Step, blocks_in_all, constraints, peak_in_flight};
use crate::commands::classes;

/// What two streams came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Commands of the model.
    pub model_commands: usize,
    /// Commands of the real kernel.
    pub linux_commands: usize,
    /// What is not the same, the first occurrence of each kind.
    pub differences: Vec<Difference>,
    /// Time in the device, class by class.
    pub latencies: Vec<ClassLatency>,
}

/// Mean time in the device of one class of commands under both hosts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassLatency {
    /// The class.
    pub class: String,
    /// Under the model; `None` where it sent none.
    pub model_us: Option<f64>,
    /// Under the real kernel.
    pub linux_us: Option<f64>,
}

/// Something that is not the same.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// In what way.
    pub kind: DifferenceKind,
    /// Where it first shows and what each side has there.
    pub first: String,
    /// How often.
    pub count: usize,
}

/// In what way streams differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DifferenceKind {
    /// Another opcode, place, length or flag, or another order of them.
    Commands,
    /// More or fewer commands of a class.
    Count,
    /// Other lengths of the same data.
    Lengths,
    /// A flush, FUA write or zone command waits for other things, or others for it.
    Order,
    /// Another number of commands in the device at once.
    Depth,
    /// Another time in the device.
    DeviceLatency,
    /// Another time as the job saw it.
    HostLatency,
    /// A command or the run failed under one host.
    Failure,
}

impl fmt::Display for DifferenceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Commands => "commands",
            Self::Count => "count",
            Self::Lengths => "lengths",
            Self::Order => "order",
            Self::Depth => "depth",
            Self::DeviceLatency => "device-latency",
            Self::HostLatency => "host-latency",
            Self::Failure => "failure",
        })
    }
}

/// Latencies that differ by less than this are the same: some reads of the clock
/// inside a guest, of 256 ns each (arch/um/kernel/time.c, timer_read).
pub(super) const LATENCY_SLACK_US: f64 = 5.0;
/// And by less than this part of the model's.
pub(super) const LATENCY_SLACK: f64 = 0.05;

/// Volumes of drawn lengths may differ by this part: four standard errors of the sum
/// of 400 lengths that are uniform from 4 to 64 KiB, which is 2.6 %.
const DRAWN_SLACK: f64 = 0.104;

/// The class of Zone Management Receive.
const ZONE_REPORT: &str = "zone_receive";

/// Whether two mean latencies are the same within the slack.
pub(super) fn near(model_us: f64, linux_us: f64) -> bool {
    (model_us - linux_us).abs() <= LATENCY_SLACK_US + LATENCY_SLACK * model_us
}

/// Compares what the device got under both hosts, each sorted by submission.
pub fn compare(model: &[CommandRecord], linux: &[CommandRecord], how: Comparing) -> Comparison {
    let mut differences = Vec::new();
    let steps =
        |records: &[CommandRecord]| -> Vec<Step> { records.iter().map(|record| Step::of(&record.command)).collect() };
    let (ours, theirs) = (steps(model), steps(linux));
    match how {
        Comparing::Exact => differences.extend(in_order(&ours, &theirs)),
        Comparing::AnyOrder => differences.extend(as_bags(&ours, &theirs, DifferenceKind::Commands)),
        Comparing::Shape => {
            let shapes = |steps: &[Step]| steps.iter().map(Step::shape).collect::<Vec<_>>();
            differences.extend(as_bags(&shapes(&ours), &shapes(&theirs), DifferenceKind::Lengths));
        }
        Comparing::Volume | Comparing::Drawn => {
            let (ours, theirs) = (blocks_in_all(model), blocks_in_all(linux));
            let slack = if how == Comparing::Drawn { (ours as f64 * DRAWN_SLACK) as u64 } else { 0 };
            if ours.abs_diff(theirs) > slack {
                let first = format!("model moves {ours} blocks, Linux {theirs}");
                differences.push(Difference { kind: DifferenceKind::Lengths, first, count: 1 });
            }
        }
    }
    // How many commands move a volume is left open, and so is what waits for what.
    if !matches!(how, Comparing::Volume | Comparing::Drawn) {
        differences.extend(counts(&ours, &theirs));
        differences.extend(order(&constraints(model), &constraints(linux)));
        let (ours, theirs) = (peak_in_flight(model), peak_in_flight(linux));
        if ours != theirs {
            let first = format!("model has at most {ours} commands in the device, Linux {theirs}");
            differences.push(Difference { kind: DifferenceKind::Depth, first, count: 1 });
        }
    }
    let latencies = latencies(model, linux);
    let far: Vec<&ClassLatency> = latencies
        .iter()
        .filter(|row| matches!((row.model_us, row.linux_us), (Some(model), Some(linux)) if !near(model, linux)))
        .collect();
    if let Some(row) = far.first() {
        let us = |value: Option<f64>| value.map_or("-".to_owned(), |us| format!("{us:.2} us"));
        let first =
            format!("{} takes {} under the model, {} under Linux", row.class, us(row.model_us), us(row.linux_us));
        differences.push(Difference { kind: DifferenceKind::DeviceLatency, first, count: far.len() });
    }
    differences.sort_by_key(|difference| difference.kind);
    Comparison { model_commands: model.len(), linux_commands: linux.len(), differences, latencies }
}

/// The same commands in the same order.
fn in_order(model: &[Step], linux: &[Step]) -> Option<Difference> {
    // Programs ask for the state of zones when they like; what else there is has an order.
    let ordered =
        |steps: &[Step]| -> Vec<Step> { steps.iter().filter(|step| step.class != ZONE_REPORT).cloned().collect() };
    let (model, linux) = (&ordered(model), &ordered(linux));
    let length = model.len().max(linux.len());
    let differ: Vec<usize> = (0..length).filter(|index| model.get(*index) != linux.get(*index)).collect();
    let first = *differ.first()?;
    let side = |steps: &[Step]| steps.get(first).map_or("nothing".to_owned(), ToString::to_string);
    Some(Difference {
        kind: DifferenceKind::Commands,
        first: format!("command {first}: model {}, Linux {}", side(model), side(linux)),
        count: differ.len(),
    })
}

/// The same commands in any order.
fn as_bags(model: &[Step], linux: &[Step], kind: DifferenceKind) -> Option<Difference> {
    let mut balance: BTreeMap<&Step, i64> = BTreeMap::new();
    model.iter().for_each(|step| *balance.entry(step).or_default() += 1);
    linux.iter().for_each(|step| *balance.entry(step).or_default() -= 1);
    balance.retain(|_, left| *left != 0);
    let (step, left) = balance.iter().next()?;
    let (side, times) = if *left > 0 { ("the model", *left) } else { ("Linux", -*left) };
    Some(Difference {
        kind,
        first: format!("{times} x `{step}` only under {side}"),
        count: balance.values().map(|left| left.unsigned_abs() as usize).sum(),
    })
}

/// As many commands of each class.
fn counts(model: &[Step], linux: &[Step]) -> Option<Difference> {
    let mut balance: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    model.iter().for_each(|step| balance.entry(step.class).or_default().0 += 1);
    linux.iter().for_each(|step| balance.entry(step.class).or_default().1 += 1);
    let differ: Vec<_> = balance.iter().filter(|(_, (ours, theirs))| ours != theirs).collect();
    let (class, (ours, theirs)) = differ.first()?;
    Some(Difference {
        kind: DifferenceKind::Count,
        first: format!("{class}: model {ours}, Linux {theirs}"),
        count: differ.len(),
    })
}

/// The same waits around flushes, FUA writes and zone commands.
fn order(model: &[Order], linux: &[Order]) -> Option<Difference> {
    if model.len() != linux.len() {
        // The count of the class says so.
        return None;
    }
    let differ: Vec<usize> = (0..model.len()).filter(|index| model.get(*index) != linux.get(*index)).collect();
    let first = *differ.first()?;
    let side = |orders: &[Order]| {
        orders.get(first).map_or(String::new(), |order| {
            format!("{} commands before it and {} after it overlap it", order.in_flight, order.overtaking)
        })
    };
    Some(Difference {
        kind: DifferenceKind::Order,
        first: format!(
            "{} {first}: under the model {}, under Linux {}",
            model.get(first).map_or("", |order| order.class),
            side(model),
            side(linux)
        ),
        count: differ.len(),
    })
}

fn latencies(model: &[CommandRecord], linux: &[CommandRecord]) -> Vec<ClassLatency> {
    let (ours, theirs) = (classes(model), classes(linux));
    let mean = |of: &[crate::results::CommandClass], class: &str| {
        of.iter().find(|known| known.class == class).map(|known| known.latency.mean_ns / 1e3)
    };
    crate::commands::CLASSES
        .iter()
        .map(|class| ClassLatency {
            class: (*class).to_owned(),
            model_us: mean(&ours, class),
            linux_us: mean(&theirs, class),
        })
        .filter(|row| row.model_us.is_some() || row.linux_us.is_some())
        .collect()
}

#[cfg(test)]
mod tests {
    use nvme::{Command, CommandId, Lba, LbaRange, NamespaceId, QueueId, Status};
    use proptest::prelude::*;
    use units::Nanos;

    use super::*;

    const NSID: NamespaceId = NamespaceId::FIRST;

    fn write(start: u64, count: u32, fua: bool) -> Command {
        Command::write(NSID, LbaRange { start: Lba(start), count }, fua)
    }

    fn record(sequence: u64, submitted: u64, completed: u64, command: Command) -> CommandRecord {
        CommandRecord {
            sequence,
            submitted_at: Nanos(submitted),
            completed_at: Some(Nanos(completed)),
            queue: QueueId(1),
            cid: CommandId(0),
            command,
            status: Some(Status::SUCCESS),
        }
    }

    /// Two writes, a flush that waits for them, a write that waits for the flush.
    fn stream() -> Vec<CommandRecord> {
        vec![
            record(0, 0, 20_000, write(0, 8, false)),
            record(1, 1_000, 21_000, write(8, 8, false)),
            record(2, 21_000, 521_000, Command::Flush { nsid: NSID }),
            record(3, 521_000, 541_000, write(16, 8, true)),
        ]
    }

    fn kinds(model: &[CommandRecord], linux: &[CommandRecord], how: Comparing) -> Vec<DifferenceKind> {
        compare(model, linux, how).differences.iter().map(|difference| difference.kind).collect()
    }

    #[test]
    fn a_stream_equals_itself() {
        for how in [Comparing::Exact, Comparing::AnyOrder, Comparing::Shape, Comparing::Volume, Comparing::Drawn] {
            assert_eq!(kinds(&stream(), &stream(), how), []);
        }
    }

    /// Every kind of change is found, and named.
    #[test]
    fn mutants_are_caught() {
        use DifferenceKind::*;
        let mutant = |change: &dyn Fn(&mut Vec<CommandRecord>)| {
            let mut stream = stream();
            change(&mut stream);
            kinds(&super::tests::stream(), &stream, Comparing::Exact)
        };
        assert_eq!(mutant(&|s| s[1].command = write(9, 8, false)), [Commands]);
        assert_eq!(mutant(&|s| s[1].command = write(8, 16, false)), [Commands]);
        assert_eq!(mutant(&|s| s[3].command = write(16, 8, false)), [Commands, Count]);
        assert_eq!(mutant(&|s| drop(s.remove(0))), [Commands, Count, Depth]);
        // A flush that does not wait for the write before it.
        assert_eq!(mutant(&|s| s[2].submitted_at = Nanos(20_500)), [Order]);
        // A write that does not wait for the flush.
        assert_eq!(mutant(&|s| s[3].submitted_at = Nanos(500_000)), [Order, DeviceLatency]);
        // One that waits for the other to end: less depth, and another latency.
        assert_eq!(mutant(&|s| s[1].submitted_at = Nanos(20_500)), [Depth, DeviceLatency]);
        assert_eq!(mutant(&|s| s[3].completed_at = Some(Nanos(641_000))), [DeviceLatency]);
    }

    #[test]
    fn a_report_of_zones_is_counted_and_shifts_nothing() {
        let report = Command::ZoneManagementReceive {
            nsid: NSID,
            start: Lba(0),
            action: nvme::ZoneReceiveAction::Report,
            filter: nvme::ZoneReportFilter::All,
            partial: true,
            bytes: 4096,
        };
        let mut asked = stream();
        asked.insert(0, record(9, 0, 10, report));
        assert_eq!(kinds(&stream(), &asked, Comparing::Exact), [DifferenceKind::Count]);
    }

    #[test]
    fn drawn_lengths_may_differ_a_little() {
        let volume = |blocks| vec![record(0, 0, 20_000, write(0, blocks, false))];
        assert_eq!(kinds(&volume(1000), &volume(1100), Comparing::Drawn), []);
        assert_eq!(kinds(&volume(1000), &volume(1200), Comparing::Drawn), [DifferenceKind::Lengths]);
        assert_eq!(kinds(&volume(1000), &volume(1001), Comparing::Volume), [DifferenceKind::Lengths]);
    }

    #[test]
    fn order_counts_only_where_it_is_compared() {
        let mut swapped = stream();
        let first = swapped[0].command.clone();
        swapped[0].command = swapped[1].command.clone();
        swapped[1].command = first;
        assert_eq!(kinds(&stream(), &swapped, Comparing::Exact), [DifferenceKind::Commands]);
        assert_eq!(kinds(&stream(), &swapped, Comparing::AnyOrder), []);
        let mut moved = stream();
        moved[0].command = write(800, 8, false);
        assert_eq!(kinds(&stream(), &moved, Comparing::AnyOrder), [DifferenceKind::Commands]);
        assert_eq!(kinds(&stream(), &moved, Comparing::Shape), []);
        moved[0].command = write(800, 16, false);
        assert_eq!(kinds(&stream(), &moved, Comparing::Shape), [DifferenceKind::Lengths]);
    }

    proptest! {
        /// Two streams are the same to `AnyOrder` exactly when their sorted steps are.
        #[test]
        fn bags_agree_with_sorting(a in prop::collection::vec(0u64..4, 0..8), b in prop::collection::vec(0u64..4, 0..8)) {
            let steps = |starts: &[u64]| -> Vec<Step> {
                starts.iter().map(|start| Step::of(&write(*start, 8, false))).collect()
            };
            let sorted = |starts: &[u64]| { let mut all = starts.to_vec(); all.sort_unstable(); all };
            let found = as_bags(&steps(&a), &steps(&b), DifferenceKind::Commands);
            prop_assert_eq!(found.is_none(), sorted(&a) == sorted(&b));
        }
    }
}
