//! The log of writes against the device that it is of: whatever a power cut leaves undecided in the device, the rule of volatile
//! caches has as undecided too, and what the device keeps is what the rule says is durable.

use std::io::Write;

use crate::kept::Shared;
use crash::{Cuts, Image, LogReader, VolatileCache};
use nvme::{Command, CommandId, Lba, LbaRange, NamespaceId, QueueId};
use proptest::prelude::*;
use serve::WriteLog;
use ssd::profile::{BuildOptions, Profile, builtin_text};
use ssd::{Contents, Device, Submission, Wrapper};
use trace::RequestId;
use units::Nanos;

const BLOCKS: u64 = 64;

#[derive(Clone, Debug)]
enum Step {
    Write {
        at: u64,
        blocks: u32,
        fua: bool,
    },
    Zeroes {
        at: u64,
        blocks: u32,
    },
    Trim {
        at: u64,
        blocks: u32,
    },
    Flush,
    /// Lets so much time go by.
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let place = (0..BLOCKS - 8, 1..8_u32);
    proptest::collection::vec(
        prop_oneof![
            4 => (place.clone(), prop::bool::weighted(0.2)).prop_map(|((at, blocks), fua)| Step::Write { at, blocks, fua }),
            1 => place.clone().prop_map(|(at, blocks)| Step::Zeroes { at, blocks }),
            // In units of 4 KiB: of a smaller one a device may keep what was there.
            1 => place.prop_map(|(at, blocks)| Step::Trim { at: at / 8 * 8, blocks: blocks.next_multiple_of(8) }),
            2 => Just(Step::Flush),
            3 => (0..3_000_000_u64).prop_map(Step::Wait),
        ],
        1..40,
    )
}

fn device(name: &str) -> Box<dyn Device> {
    let profile = Profile::from_toml(&format!("devices/{name}.toml"), builtin_text(name).unwrap()).unwrap();
    let options = BuildOptions { contents: Contents::Memory, recover_from_flash: true, ..BuildOptions::default() };
    profile.build(&options).unwrap()
}

/// A device that reads a block where it is told to flush.
struct Liar(Box<dyn Device>);

impl Wrapper for Liar {
    fn inner(&self) -> &dyn Device {
        &*self.0
    }

    fn inner_mut(&mut self) -> &mut dyn Device {
        &mut *self.0
    }

    fn submit(&mut self, now: Nanos, mut submission: Submission) {
        if let Command::Flush { nsid } = submission.command {
            let range = LbaRange { start: Lba(0), count: 1 };
            submission.command = Command::Read { nsid, range, fua: false };
        }
        self.0.submit(now, submission);
    }
}

/// Carries the steps out and cuts the power at once; what stands in the log, and the device after the cut.
fn run(device: Box<dyn Device>, steps: &[Step]) -> (Vec<u8>, Box<dyn Device>, Nanos, ssd::PowerCut) {
    let file = Shared::default();
    let (log, mut device) = WriteLog::wrap(Box::new(file.clone()), device).unwrap();
    let lba_bytes = device.identity().lba_bytes;
    let mut now = Nanos(0);
    let mut done = Vec::new();
    // Commands in the device and what they cover: two that overlap would have no order, and no host has that.
    let mut outstanding: Vec<(CommandId, std::ops::Range<u64>)> = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        let nsid = NamespaceId::FIRST;
        if let Step::Write { at, blocks, .. } | Step::Zeroes { at, blocks } | Step::Trim { at, blocks } = step {
            outstanding.retain(|(cid, _)| done.iter().all(|done: &ssd::Completion| done.cid != *cid));
            let range = *at..*at + u64::from(*blocks);
            if outstanding.iter().any(|(_, other)| other.start < range.end && range.start < other.end) {
                continue;
            }
            outstanding.push((CommandId(number as u16), range));
        }
        let range = |at: u64, blocks: u32| LbaRange { start: Lba(at), count: blocks };
        let mut data = None;
        let command = match step {
            Step::Wait(ns) => {
                let end = Nanos(now.0 + ns);
                while let Some(next) = device.next_event().filter(|next| *next <= end) {
                    device.advance(next, &mut done);
                }
                now = end;
                continue;
            }
            Step::Write { at, blocks, fua } => {
                data = Some(vec![number as u8 + 1; (blocks * lba_bytes) as usize].into_boxed_slice());
                Command::write(nsid, range(*at, *blocks), *fua)
            }
            Step::Zeroes { at, blocks } => {
                Command::WriteZeroes { nsid, range: range(*at, *blocks), fua: false, deallocate: false }
            }
            Step::Trim { at, blocks } => Command::Deallocate { nsid, ranges: Box::new([range(*at, *blocks)]) },
            Step::Flush => Command::Flush { nsid },
        };
        let (queue, cid) = (QueueId(1), CommandId(number as u16));
        device.submit(now, Submission { queue, cid, command, data, request: RequestId(number as u64) });
    }
    let cut = device.power_cut(now);
    log.finish().unwrap();
    let bytes = file.0.borrow().clone();
    (bytes, device, now, cut)
}

/// What the device reads, block by block.
fn blocks_of(device: &mut dyn Device, now: Nanos) -> Vec<u8> {
    let mut done = Vec::new();
    let lba_bytes = device.identity().lba_bytes as usize;
    let range = LbaRange { start: Lba(0), count: BLOCKS as u32 };
    let command = Command::Read { nsid: NamespaceId::FIRST, range, fua: false };
    let (queue, cid) = (QueueId(1), CommandId(0));
    device.submit(now, Submission { queue, cid, command, data: None, request: RequestId(0) });
    while done.is_empty() {
        let next = device.next_event().unwrap();
        device.advance(next, &mut done);
    }
    let data = done.pop().unwrap().data.unwrap();
    data.chunks(lba_bytes).map(|block| block[0]).collect()
}

fn blocks_of_image(image: &Image, lba_bytes: usize) -> Vec<u8> {
    let mut bytes = vec![0; BLOCKS as usize * lba_bytes];
    image.read(0, &mut bytes);
    bytes.chunks(lba_bytes).map(|block| block[0]).collect()
}

/// What a device left after a cut and the rule does not allow.
fn breach(device: Box<dyn Device>, steps: &[Step]) -> Result<(), String> {
    let (bytes, mut device, now, power_cut) = run(device, steps);
    let read = LogReader::read(&*bytes).unwrap();
    let cut = Cuts::new(Image::new(1 << 20), &read.log, VolatileCache::default()).last().unwrap();
    let lba_bytes = device.identity().lba_bytes as usize;
    // Each block reads as the durable bytes or as one of the undecided writes.
    let mut images = vec![blocks_of_image(&cut.durable, lba_bytes)];
    for kept in &cut.undecided {
        let image = cut.image(lba_bytes as u32, |write, _| write.id == kept.id);
        images.push(blocks_of_image(&image, lba_bytes));
    }
    for (block, value) in blocks_of(&mut *device, now).iter().enumerate() {
        if images.iter().all(|image| image[block] != *value) {
            return Err(format!("block {block} reads {value}"));
        }
    }
    // And what the device says may have survived is undecided for the rule.
    for write in &power_cut.undecided {
        let range = write.start.0 * lba_bytes as u64..(write.start.0 + u64::from(write.blocks)) * lba_bytes as u64;
        if !cut.undecided.iter().any(|other| other.range().start < range.end && range.start < other.range().end) {
            return Err(format!("{range:?} is undecided in the device alone"));
        }
    }
    Ok(())
}

const DEVICES: [&str; 3] = ["samsung-980pro-1tb", "samsung-860evo-250gb", "hdd-7200-1tb"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if std::env::var_os("PLUMB_LONG").is_some() { 2000 } else { 64 }))]
    #[test]
    fn what_a_device_may_lose_is_what_the_rule_calls_undecided(steps in steps(), which in 0..DEVICES.len()) {
        prop_assert_eq!(breach(device(DEVICES[which]), &steps), Ok(()), "on {}", DEVICES[which]);
    }
}

#[test]
fn a_device_that_does_not_flush_is_found_out() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

    for name in DEVICES {
        let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let mut runner = TestRunner::new_with_rng(Config::default(), random);
        let mut breaches = (0..100).map(|_| steps().new_tree(&mut runner).unwrap().current());
        assert!(breaches.any(|steps| breach(Box::new(Liar(device(name))), &steps).is_err()), "{name}");
    }
}

#[test]
fn a_device_with_zones_has_no_such_log() {
    let error = WriteLog::wrap(Box::new(Shared::default()), device("wd-zn540")).err().unwrap();
    assert!(error.to_string().contains("without zones"), "{error}");
}

#[test]
fn a_file_that_takes_no_more_ends_the_log_and_not_the_device() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            // The header, and no more.
            if bytes.len() == 24 { Ok(24) } else { Err(std::io::ErrorKind::StorageFull.into()) }
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let (log, mut device) = WriteLog::wrap(Box::new(Full), device("samsung-980pro-1tb")).unwrap();
    let command = Command::Flush { nsid: NamespaceId::FIRST };
    let (queue, cid) = (QueueId(1), CommandId(0));
    device.submit(Nanos(0), Submission { queue, cid, command, data: None, request: RequestId(0) });
    let mut done = Vec::new();
    while done.is_empty() {
        let next = device.next_event().unwrap();
        device.advance(next, &mut done);
    }
    assert!(done[0].status.is_success());
    assert_eq!(log.finish().unwrap_err().kind(), std::io::ErrorKind::StorageFull);
}
