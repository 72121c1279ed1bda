//! What a reader must know before believing a number, though the run did what
//! it was asked to.

use std::collections::BTreeMap;

use crate::results::{JobResult, RunResult};
use crate::spec::short_key;

/// A part of the bytes read below which nobody minds.
const UNWRITTEN_SHARE: f64 = 0.01;

/// One line each.
pub fn of(runs: &[RunResult]) -> Vec<String> {
    let mut remarks = Vec::new();
    remarks.extend(unwritten(runs));
    remarks.extend(of_runs(runs));
    remarks.extend(alike(runs));
    remarks
}

/// Reads of blocks that hold nothing: no drive goes to its flash for them.
fn unwritten(runs: &[RunResult]) -> Option<String> {
    let share = |run: &RunResult| {
        let unwritten = run.counter("device.unwritten_read_bytes")? as f64;
        let read = run.counter("device.host_read_bytes").filter(|bytes| *bytes > 0)? as f64;
        Some((unwritten / read).min(1.0))
    };
    let shares: Vec<f64> = runs.iter().filter_map(share).filter(|share| *share >= UNWRITTEN_SHARE).collect();
    let most = shares.iter().copied().reduce(f64::max)?;
    let at = match (shares.len(), runs.len()) {
        (_, 1) => String::new(),
        (some, all) if some == all => "In every run, up to ".to_owned(),
        (some, all) => format!("In {some} of {all} runs, up to "),
    };
    Some(format!(
        "{at}{:.0} % of the bytes read were of blocks that nothing had been written to. A drive answers such reads without \
         reading its flash, faster than it reads data. Write them first, or set stack.device_set.initial.fill (1: the whole drive \
         is written).",
        most * 100.0
    ))
}

/// Runs whose remarks of one kind are listed.
const LISTED: usize = 3;

/// What the runs themselves remarked, of each kind the first few.
fn of_runs(runs: &[RunResult]) -> Vec<String> {
    let mut kinds: Vec<(&str, Vec<(usize, &str)>)> = Vec::new();
    for run in runs {
        for text in &run.remarks {
            let kind = text.split(':').next().unwrap_or_default();
            match kinds.iter_mut().find(|(known, _)| *known == kind) {
                Some((_, texts)) => texts.push((run.point, text)),
                None => kinds.push((kind, vec![(run.point, text)])),
            }
        }
    }
    let swept = runs.iter().any(|run| !run.parameters.is_empty());
    let mut lines = Vec::new();
    for (kind, texts) in kinds {
        let at = |point: usize| if swept { format!(" (point {point})") } else { String::new() };
        lines.extend(texts.iter().take(LISTED).map(|(point, text)| format!("{text}{}", at(*point))));
        if texts.len() > LISTED {
            lines.push(format!("{kind}: the same in {} more runs.", texts.len() - LISTED));
        }
    }
    lines
}

/// Swept keys whose values make no difference at some places, where a reader
/// would expect one.
fn alike(runs: &[RunResult]) -> Vec<String> {
    let keys = runs.first().map_or(&[][..], |run| &run.parameters);
    let of_key = |(index, (key, _)): (usize, &(String, String))| {
        // Runs that differ in this key alone.
        let mut groups: BTreeMap<(Vec<&str>, u32), Vec<&RunResult>> = BTreeMap::new();
        for run in runs {
            let others = run.parameters.iter().enumerate().filter(|(at, _)| *at != index);
            let place = others.map(|(_, (_, value))| value.as_str()).collect();
            groups.entry((place, run.repeat)).or_default().push(run);
        }
        groups.retain(|_, runs| runs.len() > 1);
        if key == "stack.block.scheduler" {
            return schedulers(groups.values(), index);
        }
        // A setting that matters at one place, or to one of its values, is no news.
        let values = groups.values().map(|runs| all_alike(runs, index)).collect::<Option<Vec<_>>>()?;
        let (most, all) = (values.iter().max_by_key(|values| values.len())?, groups.len());
        let most = most.join(" and ");
        Some(format!(
            "{} = {most} give equal figures in all of {all} comparisons: this setting made no difference here.",
            short_key(key)
        ))
    };
    keys.iter().enumerate().filter_map(of_key).collect()
}

fn value(run: &RunResult, index: usize) -> Option<&str> {
    run.parameters.get(index).map(|(_, value)| value.as_str())
}

/// Whether two runs did the same, in the same time. Runs that did nothing cannot be compared.
fn same(one: &RunResult, other: &RunResult) -> bool {
    let did = one.jobs.iter().any(|job: &JobResult| !job.directions.is_empty());
    did && one.jobs == other.jobs && one.seed == other.seed
}

/// The values of key `index`, if it made no difference among these runs.
fn all_alike<'a>(runs: &[&'a RunResult], index: usize) -> Option<Vec<&'a str>> {
    let first = runs.first()?;
    runs.iter().map(|run| if same(first, run) { value(run, index) } else { None }).collect()
}

/// What is said of the first two schedulers that are alike anywhere, and at how many of the places where both ran.
fn schedulers<'a>(groups: impl Iterator<Item = &'a Vec<&'a RunResult>> + Clone, index: usize) -> Option<String> {
    let pairs = |runs: &'a Vec<&'a RunResult>| {
        let of_one = move |(at, one): (usize, &&'a RunResult)| {
            let one = *one;
            runs[at + 1..].iter().map(move |other| (one, *other))
        };
        runs.iter().enumerate().flat_map(of_one)
    };
    let named = |(one, other): (&'a RunResult, &'a RunResult)| Some((value(one, index)?, value(other, index)?));
    let alike = groups.clone().flat_map(pairs).find(|(one, other)| same(one, other))?;
    let (first, second) = named(alike)?;
    let of_both = groups.clone().flat_map(pairs).filter(|pair| named(*pair) == Some((first, second)));
    let (some, all) = of_both.fold((0, 0), |(some, all), (one, other)| (some + usize::from(same(one, other)), all + 1));
    let waited = groups.flatten().any(|run| run.counter("block.tag_waits").is_some_and(|waits| waits > 0));
    let room = if waited { "" } else { ": the device's queue always had room, so that no request waited there" };
    Some(format!(
        "scheduler = {first} and {second} give equal figures ({some} of {all} comparisons). The model charges no \
         processor time for a scheduler's own work, and these workloads left it nothing to choose{room}. Schedulers \
         differ where more is outstanding than the queue holds (stack.block.nr_requests), where reads compete with \
         writes, and where neighbours merge."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::DirectionResult;

    fn run(parameters: &[(&str, &str)], ios: u64, counters: &[(&str, u64)]) -> RunResult {
        let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let direction = DirectionResult { direction: "read".to_owned(), ios, ..DirectionResult::default() };
        RunResult {
            parameters: parameters.iter().map(own).collect(),
            jobs: vec![JobResult { name: "j".to_owned(), directions: vec![direction] }],
            counters: counters.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
            ..RunResult::default()
        }
    }

    #[test]
    fn reads_of_nothing_are_told() {
        let read = |unwritten| [("device.host_read_bytes", 1000), ("device.unwritten_read_bytes", unwritten)];
        assert_eq!(of(&[run(&[], 1, &read(0))]), Vec::<String>::new());
        assert!(of(&[run(&[], 1, &read(700))])[0].starts_with("70 % of the bytes read"));
        let both = of(&[run(&[("k", "1")], 1, &read(0)), run(&[("k", "2")], 2, &read(1000))]);
        assert!(both[0].starts_with("In 1 of 2 runs, up to 100 %"), "{both:?}");
    }

    #[test]
    fn equal_figures_are_explained() {
        let with = |scheduler, depth, ios| run(&[("stack.block.scheduler", scheduler), ("depth", depth)], ios, &[]);
        let runs = [with("none", "1", 5), with("none", "2", 6), with("zinc", "1", 5), with("zinc", "2", 7)];
        let said = of(&runs);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(
            said[0].contains("none and zinc") && said[0].contains("1 of 2") && said[0].contains("had room"),
            "{said:?}"
        );
        // A depth that changes nothing anywhere.
        let said = of(&[with("none", "1", 5), with("none", "2", 5)]);
        assert!(said[0].starts_with("depth = 1 and 2 give equal figures in all of 1"), "{said:?}");
        assert_eq!(of(&[with("none", "1", 5), with("none", "2", 6)]), Vec::<String>::new());
    }

    /// Where one value differs, or one place, a pair that happens to be alike says nothing of the setting.
    #[test]
    fn a_setting_that_matters_somewhere_is_not_cautioned_against() {
        let with = |ordering, device, ios| run(&[("ordering", ordering), ("device", device)], ios, &[]);
        // On a drive with capacitors the two are equal, on the other they are not.
        let runs = [with("stock", "a", 5), with("flush", "a", 6), with("stock", "b", 7), with("flush", "b", 7)];
        assert_eq!(of(&runs), Vec::<String>::new());
        // Two of three kinds of access cost the same.
        let kinds = [with("randread", "a", 5), with("read", "a", 5), with("randwrite", "a", 6)];
        assert_eq!(of(&kinds), Vec::<String>::new());
        // A pair of schedulers is counted by itself.
        let scheduler = |name, depth, ios| run(&[("stack.block.scheduler", name), ("depth", depth)], ios, &[]);
        let runs = [
            scheduler("none", "1", 5),
            scheduler("zinc", "1", 5),
            scheduler("none", "2", 6),
            scheduler("zinc", "2", 7),
            scheduler("mq-deadline", "2", 7),
        ];
        let said = of(&runs);
        assert!(said[0].contains("none and zinc") && said[0].contains("1 of 2"), "{said:?}");
    }

    #[test]
    fn many_runs_of_one_kind_are_counted() {
        let saturated = |point| RunResult {
            point,
            parameters: vec![("k".to_owned(), point.to_string())],
            remarks: vec![format!("The device fell behind: by {point} s")],
            ..RunResult::default()
        };
        let said = of(&(0..10).map(saturated).collect::<Vec<_>>());
        assert_eq!(said.len(), 4, "{said:?}");
        assert_eq!(said[3], "The device fell behind: the same in 7 more runs.");
    }
}
