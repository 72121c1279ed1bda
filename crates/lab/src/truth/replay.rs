//! A command log given to a device once more.

use ssd::command_log::CommandRecord;
use ssd::{Device, Submission};
use trace::RequestId;
use units::Nanos;

/// A command that took another time than its log says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Its place in the log.
    pub sequence: u64,
    /// When the log says that it completed.
    pub logged: Option<Nanos>,
    /// When it completed now.
    pub replayed: Option<Nanos>,
}

/// Gives a fresh device the commands of a whole log, sorted by submission, at
/// the times logged; what completes at another time.
///
/// A device is a function of its commands and their times, so that a log from a
/// server gives the very times of the model, whatever the server did between.
pub fn replay(mut device: Box<dyn Device>, records: &[CommandRecord]) -> Vec<Mismatch> {
    let mut completed: Vec<Option<Nanos>> = vec![None; records.len()];
    let mut done = Vec::new();
    // Identifiers are used again once their command has completed.
    let mut owners = std::collections::BTreeMap::new();
    let mut collect = |device: &mut dyn Device, now: Nanos, owners: &mut std::collections::BTreeMap<_, usize>| {
        device.advance(now, &mut done);
        for completion in done.drain(..) {
            if let Some(index) = owners.remove(&(completion.queue, completion.cid))
                && let Some(at) = completed.get_mut(index)
            {
                *at = Some(completion.at);
            }
        }
    };
    for (index, record) in records.iter().enumerate() {
        while let Some(due) = device.next_event().filter(|due| *due <= record.submitted_at) {
            collect(device.as_mut(), due, &mut owners);
        }
        owners.insert((record.queue, record.cid), index);
        let (queue, cid, command) = (record.queue, record.cid, record.command.clone());
        let submission = Submission { queue, cid, command, data: None, request: RequestId(record.sequence) };
        device.submit(record.submitted_at, submission);
    }
    while let Some(due) = device.next_event().filter(|_| !owners.is_empty()) {
        collect(device.as_mut(), due, &mut owners);
    }
    records
        .iter()
        .zip(completed)
        .filter(|(record, replayed)| record.completed_at != *replayed)
        .map(|(record, replayed)| Mismatch { sequence: record.sequence, logged: record.completed_at, replayed })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ssd::profile::BuildOptions;

    use super::*;
    use crate::experiment::Experiment;
    use crate::run::{commands_of_run, plan};

    /// What a modelled host did to a device, done to it again.
    #[test]
    fn a_log_gives_its_own_times_and_a_changed_one_does_not() {
        let spec = "title = 't'\nstack.device = 'samsung-980pro-1tb'\n[workload]\nfio = '''\n[j]\nrw=randrw\nbs=4k\n\
                    direct=1\nioengine=libaio\niodepth=8\nfsync=16\nnumber_ios=300\nsize=1g\n'''\n";
        let experiment = Experiment::parse("t", "t.toml", spec, Path::new(""), &[]).unwrap();
        let planned = plan(&experiment).unwrap();
        let run = &planned[0];
        let (_, records, left_out) = commands_of_run(run, 1 << 16).unwrap();
        assert!(records.len() >= 300 && left_out == 0, "{}", records.len());
        let options =
            || BuildOptions { contents: ssd::Contents::None, seed: Some(run.seed), ..BuildOptions::default() };
        let device = run.stand().profile().unwrap().build(&options()).unwrap();
        assert_eq!(replay(device, &records), []);
        let mut changed = records.clone();
        if let Some(at) = changed[150].completed_at.as_mut() {
            *at += Nanos(1);
        }
        let device = run.stand().profile().unwrap().build(&options()).unwrap();
        let found = replay(device, &changed);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].sequence, changed[150].sequence);
    }
}
