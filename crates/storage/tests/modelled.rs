//! Modelled devices behind the seam: an array like any other, in virtual time, with power cuts.
#![allow(clippy::unwrap_used)]

use crash::{Cuts, LoggedWrite, VolatileCache};
use proptest::prelude::*;
use ssd::profile::Profile;
use storage::{
    BLOCK_BYTES, Buffer, Fault, FaultKind, Faulty, Image, Modelled, ModelledError, ModelledOptions, Operation, Queue,
    QueueExt, Recorded, Request, Storage, Tag,
};
use units::Nanos;

const BLOCK: u64 = BLOCK_BYTES as u64;
const BLOCKS: u64 = 32;
const SECTOR_BYTES: usize = 512;

/// NVMe, SATA, a disk, a card, and NVMe whose buffer capacitors save.
const PROFILES: [&str; 5] =
    ["samsung-980pro-1tb", "samsung-860evo-250gb", "hdd-7200-1tb", "microsd-evo-128gb", "samsung-pm983-1920gb"];

fn device(name: &str) -> Modelled {
    let options = ModelledOptions {
        capacity_bytes: Some(BLOCKS * BLOCK),
        recover_from_flash: true,
        ..ModelledOptions::default()
    };
    Modelled::new(&Profile::builtin(name).unwrap(), &options).unwrap()
}

fn filled(blocks: u64, byte: u8) -> Buffer {
    let mut buffer = Buffer::zeroed((blocks * BLOCK) as usize);
    buffer.fill(byte);
    buffer
}

#[derive(Clone, Debug)]
enum Step {
    Read(u64, u64),
    Write(u64, u64, u8),
    Discard(u64, u64),
    Flush,
    /// All that is outstanding completes.
    Drain,
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let place = (0..BLOCKS).prop_flat_map(|start| (Just(start), 1..=(BLOCKS - start).min(9)));
    let step = prop_oneof![
        2 => place.clone().prop_map(|(start, count)| Step::Read(start, count)),
        6 => (place.clone(), 1u8..).prop_map(|((start, count), byte)| Step::Write(start, count, byte)),
        1 => place.prop_map(|(start, count)| Step::Discard(start, count)),
        2 => Just(Step::Flush),
        3 => Just(Step::Drain),
        1 => (0u64..20_000).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 1..40)
}

/// Carries steps out, several outstanding at once as long as they do not overlap; ends early where the power goes.
fn carry_out(device: &Modelled, storage: &dyn Storage, steps: &[Step], mut read: impl FnMut(u64, &[u8])) {
    let mut queue = storage.open_queue().unwrap();
    let mut outstanding: Vec<(u64, u64)> = Vec::new();
    let mut number = 0;
    for step in steps {
        if device.is_off() {
            return;
        }
        let (place, request) = match *step {
            Step::Read(start, count) => {
                ((start, count), Request::Read { offset_bytes: start * BLOCK, buffer: filled(count, 0) })
            }
            Step::Write(start, count, byte) => {
                ((start, count), Request::Write { offset_bytes: start * BLOCK, buffer: filled(count, byte) })
            }
            Step::Discard(start, count) => {
                ((start, count), Request::Discard { offset_bytes: start * BLOCK, len_bytes: count * BLOCK })
            }
            Step::Flush => ((0, 0), Request::Flush),
            Step::Drain => {
                drain(&mut *queue, &mut outstanding, device, &mut read);
                continue;
            }
            Step::Wait(micros) => {
                device.wait(Nanos(micros * 1000));
                continue;
            }
        };
        if outstanding.iter().any(|other| place.0 < other.0 + other.1 && other.0 < place.0 + place.1) {
            drain(&mut *queue, &mut outstanding, device, &mut read);
        }
        outstanding.push(place);
        // The tag of a read says where.
        number += 1;
        let tag = if matches!(step, Step::Read(..)) { place.0 } else { BLOCKS + number };
        queue.submit(Tag(tag), request);
    }
    if !device.is_off() {
        drain(&mut *queue, &mut outstanding, device, &mut read);
    }
}

fn drain(
    queue: &mut dyn Queue,
    outstanding: &mut Vec<(u64, u64)>,
    device: &Modelled,
    read: &mut dyn FnMut(u64, &[u8]),
) {
    let mut completions = Vec::new();
    while completions.len() < outstanding.len() {
        let before = completions.len();
        queue.complete(&mut completions);
        assert!(completions.len() > before, "waiting gives something");
    }
    for completion in completions {
        match completion.result {
            Ok(()) if completion.tag.0 < BLOCKS => read(completion.tag.0, &completion.buffer),
            Ok(()) => {}
            Err(error) => assert!(device.is_off(), "{error}"),
        }
    }
    outstanding.clear();
}

/// Carries the steps out on a device and on an array.
fn like_an_array(name: &str, steps: &[Step]) -> (Nanos, Vec<(String, u64)>) {
    let device = device(name);
    let mut model = vec![0u8; (BLOCKS * BLOCK) as usize];
    // Step by step, so that the array has what a read was to find.
    for step in steps {
        carry_out(&device, &device, std::slice::from_ref(step), |start, bytes| {
            let at = (start * BLOCK) as usize;
            assert!(*bytes == model[at..at + bytes.len()], "block {start}");
        });
        let (start, count, byte) = match *step {
            Step::Write(start, count, byte) => (start, count, byte),
            Step::Discard(start, count) => {
                // Either is allowed; here a discard of the whole device, or what is there.
                let mut queue = device.open_queue().unwrap();
                let found = queue.read(start * BLOCK, (count * BLOCK) as usize).unwrap();
                let at = (start * BLOCK) as usize;
                for (found, before) in found.iter().zip(&mut model[at..]) {
                    assert!(*found == 0 || *found == *before);
                    *before = *found;
                }
                continue;
            }
            _ => continue,
        };
        model[(start * BLOCK) as usize..((start + count) * BLOCK) as usize].fill(byte);
    }
    (device.now(), device.counters())
}

/// Whether a discard takes away what is there; on a disk it does nothing, which is allowed too.
fn discards(name: &str) -> bool {
    let device = device(name);
    carry_out(&device, &device, &[Step::Write(0, 1, 1), Step::Discard(0, 1), Step::Drain], |_, _| {});
    device.open_queue().unwrap().read(0, BLOCK as usize).unwrap()[0] == 0
}

/// Cuts the power in the middle; what is left is what the rule of crash logs allows, sector for sector.
fn cut(name: &str, steps: &[Step], at: Nanos, seed: u64, fault: Option<Fault>) -> Result<u64, String> {
    let device = device(name);
    let (faulty, faults) = Faulty::new(device.clone());
    if let Some(fault) = fault {
        faults.add(fault);
    }
    // The log is kept above the fault: it has what the storage promised.
    let (recorded, recording) = Recorded::new(faulty);
    device.cut_power_at(at);
    // The log takes a discard for zeroes.
    let mut steps = steps.to_vec();
    steps.retain(|step| !matches!(step, Step::Discard(..)) || discards(name));
    carry_out(&device, &recorded, &steps, |_, _| {});
    if !device.is_off() {
        device.cut_power_at(device.now());
    }
    let mut state = seed;
    let loss = device.power_on(|_, _| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 63 == 1
    });
    let log = recording.take();
    let last = Cuts::new(Image::new(BLOCKS * BLOCK), &log, VolatileCache::default()).last().unwrap();
    let found = device.open_queue().unwrap().read(0, (BLOCKS * BLOCK) as usize).map_err(|error| error.to_string())?;
    for (number, sector) in found.chunks(SECTOR_BYTES).enumerate() {
        let at = (number * SECTOR_BYTES) as u64;
        let mut durable = [0; SECTOR_BYTES];
        last.durable.read(at, &mut durable);
        let allowed = *sector == durable
            || last.undecided.iter().flat_map(LoggedWrite::whole).any(|piece| {
                let within = at.checked_sub(piece.offset_bytes).filter(|within| *within < piece.len_bytes);
                within.is_some_and(|within| match piece.bytes() {
                    Some(bytes) => bytes[within as usize..][..SECTOR_BYTES] == *sector,
                    None => sector.iter().all(|byte| *byte == 0),
                })
            });
        if !allowed {
            return Err(format!("{name}: sector {number} is {}, durable {}", sector[0], durable[0]));
        }
    }
    Ok(loss.undecided_blocks)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn an_array_with_the_same_times_each_run(steps in steps()) {
        for name in PROFILES {
            prop_assert_eq!(like_an_array(name, &steps), like_an_array(name, &steps));
        }
    }

    #[test]
    fn a_cut_leaves_what_the_rule_allows(steps in steps(), micros in 0u64..3000, seed: u64) {
        for name in PROFILES {
            cut(name, &steps, Nanos(micros * 1000), seed, None).map_err(TestCaseError::fail)?;
        }
    }
}

/// Twelve writes, each flushed; a cut at each microsecond up to a bound that all devices but the disk are done by.
fn flushed_writes() -> Vec<Step> {
    (0..12)
        .flat_map(|number| [Step::Write(number % 4, 1, number as u8 + 1), Step::Drain, Step::Flush, Step::Drain])
        .collect()
}

/// A device that keeps every cut's promise has something to lose meanwhile, and one whose flushes are lost is noticed.
#[test]
fn cuts_lose_something_and_lost_flushes_are_noticed() {
    for name in ["samsung-980pro-1tb", "samsung-860evo-250gb", "hdd-7200-1tb"] {
        let steps = flushed_writes();
        let lost = Fault { operation: Some(Operation::Flush), at: 0, lasting: true, kind: FaultKind::Lost };
        let (mut undecided, mut noticed) = (0, 0);
        for number in 0..60 {
            let at = Nanos(number * 397_000);
            undecided += cut(name, &steps, at, number, None).unwrap();
            noticed += u64::from(cut(name, &steps, at, number, Some(lost)).is_err());
        }
        assert!(undecided > 0 && noticed > 0, "{name}: {undecided} blocks undecided, {noticed} lost flushes noticed");
    }
}

/// Far more than the device's queue takes, from two queues: all complete, and together sooner than one by one.
#[test]
fn the_device_works_on_many_at_once() {
    let options = ModelledOptions { capacity_bytes: Some(64 << 20), ..ModelledOptions::default() };
    let profile = Profile::builtin("samsung-860evo-250gb").unwrap();
    let run = |together: bool| {
        let device = Modelled::new(&profile, &options).unwrap();
        let mut queues = [device.open_queue().unwrap(), device.open_queue().unwrap()];
        queues[0].write(0, filled(2048, 7)).unwrap();
        queues[0].flush().unwrap();
        device.wait(Nanos(1_000_000_000));
        let began = device.now();
        let mut completions = Vec::new();
        for number in 0..400u64 {
            let read = Request::Read { offset_bytes: number * 37 % 2048 * BLOCK, buffer: Buffer::zeroed(BLOCK_BYTES) };
            let queue = &mut queues[(number % 2) as usize];
            queue.submit(Tag(number), read);
            if !together {
                queue.complete(&mut completions);
            }
        }
        for queue in &mut queues {
            loop {
                let before = completions.len();
                queue.complete(&mut completions);
                if completions.len() == before {
                    break;
                }
            }
        }
        let mut tags: Vec<u64> = completions.iter().map(|one| one.tag.0).collect();
        tags.sort_unstable();
        assert_eq!(tags, (0..400).collect::<Vec<_>>());
        assert!(completions.iter().all(|one| one.result.is_ok() && one.buffer[..] == filled(1, 7)[..]));
        device.now() - began
    };
    let (together, alone) = (run(true), run(false));
    assert!(together * 2 < alone, "{together} together and {alone} one by one");
}

/// A request larger than a command, and a discard of everything.
#[test]
fn large_requests_are_split() {
    let options = ModelledOptions { capacity_bytes: Some(8 << 20), ..ModelledOptions::default() };
    for name in ["optane-905p-960gb", "samsung-980pro-1tb"] {
        let device = Modelled::new(&Profile::builtin(name).unwrap(), &options).unwrap();
        let mut queue = device.open_queue().unwrap();
        let mut all = Buffer::zeroed(8 << 20);
        for (number, block) in all.chunks_mut(BLOCK_BYTES).enumerate() {
            block.fill((number % 251) as u8);
        }
        queue.write(0, all.clone()).unwrap();
        assert!(queue.read(0, 8 << 20).unwrap()[..] == all[..]);
        assert!(queue.read(BLOCK, 4 << 20).unwrap()[..] == all[BLOCK_BYTES..][..4 << 20]);
        queue.call(Request::Discard { offset_bytes: 0, len_bytes: 8 << 20 }).unwrap();
        assert!(queue.read(0, 8 << 20).unwrap().iter().all(|byte| *byte == 0), "{name}");
    }
}

#[test]
fn without_power_everything_fails_until_it_is_back() {
    let device = device("samsung-980pro-1tb");
    let mut queue = device.open_queue().unwrap();
    queue.write(0, filled(1, 1)).unwrap();
    queue.flush().unwrap();
    // In the middle of a write.
    device.cut_power_at(device.now() + Nanos(1000));
    let error = queue.write(0, filled(1, 2)).unwrap_err();
    assert!(error.to_string().contains("no power") && device.is_off(), "{error}");
    assert!(queue.flush().is_err() && queue.read(0, BLOCK_BYTES).is_err());
    assert_eq!(device.power_on(|_, _| false).unanswered, 1);
    assert_eq!(queue.read(0, BLOCK_BYTES).unwrap()[0], 1);
    assert_eq!(device.power_on(|_, _| true), storage::PowerLoss::default(), "it is on");
    // While nothing goes on.
    let before = device.now();
    device.cut_power_at(before + Nanos(500));
    device.wait(Nanos(1000));
    assert!(device.is_off() && device.now() == before + Nanos(1000));
}

#[test]
fn what_makes_no_storage_is_refused() {
    let options =
        |capacity_bytes| ModelledOptions { capacity_bytes: Some(capacity_bytes), ..ModelledOptions::default() };
    let zoned = Modelled::new(&Profile::builtin("wd-zn540").unwrap(), &options(1 << 20)).unwrap_err();
    assert!(matches!(zoned, ModelledError::Zoned { .. }), "{zoned}");
    let small = Modelled::new(&Profile::builtin("samsung-860evo-250gb").unwrap(), &options(1 << 50)).unwrap_err();
    assert!(matches!(small, ModelledError::Capacity { .. }), "{small}");
    let blind = Profile::builtin("samsung-860evo-250gb").unwrap().build_send(&ssd::profile::BuildOptions::default());
    let blind = Modelled::of_device(blind.unwrap(), None).unwrap_err();
    assert!(matches!(blind, ModelledError::NoContents { .. }), "{blind}");
    let mut queue = device("samsung-980pro-1tb").open_queue().unwrap();
    assert!(queue.read(BLOCKS * BLOCK, BLOCK_BYTES).is_err() && queue.read(1, BLOCK_BYTES).is_err());
    assert!(queue.read(0, 0).unwrap().is_empty());
}

/// A discard right behind a write that it covers in part, with the power cut at any time.
#[test]
fn a_cut_right_behind_a_discard_of_what_was_written() {
    let steps = [Step::Write(9, 6, 1), Step::Discard(1, 9), Step::Drain, Step::Flush];
    for micros in 0..400 {
        for name in PROFILES {
            cut(name, &steps, Nanos(micros * 1000), 0, None).unwrap();
        }
    }
}
