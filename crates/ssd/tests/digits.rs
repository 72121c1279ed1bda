//! The same digits as ever: each event, completion, span and counter of a fixed set of runs over every kind of device, held against
//! digests of the same runs earlier. What only moves code changes none of them.

use crate::common::digest::{Digest, compare};
use crate::common::{Random, changed_profile};
use nvme::{Command, CommandId, Lba, LbaRange, NamespaceId, QueueId, ZoneSendAction};
use ssd::config::{GcPolicyKind, HotCold, Initial, Overwritten, SlcCache, Sleep, SsdConfig, Suspend};
use ssd::profile::{BuildOptions, Profile, builtin_names};
use ssd::{Completion, Contents, Device, Payload, Ssd, Submission};
use trace::{Recorder, RequestId};
use units::{ByteSize, Nanos};

/// A device being driven, and the digest of what it did.
struct Run {
    device: Box<dyn Device>,
    recorder: Recorder,
    now: Nanos,
    random: Random,
    cid: u16,
    /// Next block to write in each zone.
    written: Vec<u64>,
    digest: Digest,
}

impl Run {
    fn new(mut device: Box<dyn Device>, seed: u64) -> Self {
        let recorder = Recorder::bounded(1 << 17);
        device.set_recorder(recorder.clone());
        let (random, digest) = (Random(seed), Digest::default());
        Self { device, recorder, now: Nanos::ZERO, random, cid: 0, written: vec![0; 4], digest }
    }

    fn submit(&mut self, command: Command, data: Payload) {
        self.cid += 1;
        let (queue, cid, request) = (QueueId(1 + self.cid % 2), CommandId(self.cid), RequestId(self.cid.into()));
        self.device.submit(self.now, Submission { queue, cid, command, data, request });
    }

    /// Lets the device do what is due by `until`, one instant after the other.
    fn advance(&mut self, until: Nanos) {
        let mut done = Vec::new();
        while let Some(next) = self.device.next_event().filter(|next| *next <= until) {
            self.device.advance(next, &mut done);
            self.digest.line(format_args!("at {}", next.0));
            for Completion { queue, cid, status, result, data, at } in done.drain(..) {
                let (kind, code) = (status.code_type, status.code);
                self.digest.line(format_args!("{} {} {kind} {code} {result} {}", queue.0, cid.0, at.0));
                self.digest.bytes(data.as_deref());
            }
        }
        self.now = until;
    }

    /// A pause after a command: often none, seldom long.
    fn pause(&mut self) {
        let longest_ns = match self.random.below(32) {
            0..16 => return,
            16..29 => 200_000,
            29..31 => 3_000_000,
            _ => 60_000_000,
        };
        let pause = Nanos(self.random.below(longest_ns));
        self.advance(self.now + pause);
    }

    fn cut(&mut self) {
        let cut = self.device.power_cut(self.now);
        for write in &cut.undecided {
            let survives = self.random.below(2) == 1;
            let (sequence, start, blocks) = (write.sequence, write.start.0, write.blocks);
            self.digest.line(format_args!("{sequence} {} {start} {blocks} {survives}", write.nsid.0));
            self.digest.bytes(write.data.as_deref());
            if survives {
                self.device.survive(write);
            }
        }
        if self.device.identity().zoned.is_some() {
            let zones = self.device.zones(NamespaceId::FIRST);
            for (written, zone) in self.written.iter_mut().zip(zones) {
                self.digest.line(format_args!("{zone:?}"));
                *written = zone.written_blocks;
            }
        }
        self.counters();
    }

    fn counters(&mut self) {
        for (name, value) in self.device.counters() {
            self.digest.line(format_args!("{name} {value}"));
        }
    }

    /// The digest, when nothing is left to do or ten seconds have passed.
    fn finish(mut self) -> String {
        self.advance(self.now + Nanos::from_secs(10));
        self.counters();
        let (spans, dropped) = self.recorder.take();
        self.digest.line(format_args!("{dropped} more spans"));
        for span in spans {
            self.digest.line(format_args!("{span:?}"));
        }
        self.digest.text()
    }

    /// What `blocks` blocks are written with, if the device keeps contents.
    fn data(&mut self, blocks: u32) -> Payload {
        let identity = self.device.identity();
        let bytes = blocks as usize * identity.lba_bytes as usize;
        identity.keeps_contents.then(|| vec![self.cid as u8; bytes].into())
    }

    /// A command of the NVM command set, within the first `span` blocks of a namespace.
    fn random_command(&mut self, span: u64) {
        let namespaces = &self.device.identity().namespace_blocks;
        let index = self.random.below(namespaces.len() as u64) as usize;
        let blocks = namespaces[index].min(span);
        let nsid = NamespaceId(index as u32 + 1);
        let start = self.random.below(blocks);
        let count = (1 + self.random.below(24)).min(blocks - start) as u32;
        let (range, fua) = (LbaRange { start: Lba(start), count }, self.random.below(10) == 0);
        let (command, data) = match self.random.below(20) {
            0..11 => (Command::write(nsid, range, fua), self.data(count)),
            11..16 => (Command::Read { nsid, range, fua }, None),
            16 => (Command::WriteZeroes { nsid, range, fua, deallocate: true }, None),
            17 => (Command::Deallocate { nsid, ranges: [range].into() }, None),
            _ => (Command::Flush { nsid: NamespaceId::ALL }, None),
        };
        self.submit(command, data);
    }

    /// A command to one of the first zones.
    fn random_zone_command(&mut self) {
        let identity = self.device.identity().zoned.clone().unwrap();
        let zone = self.random.below(self.written.len() as u64);
        let nsid = NamespaceId::FIRST;
        let first = zone * identity.zone_blocks;
        let written = self.written[zone as usize];
        // Writes are whole pages of 16 KiB, as the narrowest design wants them.
        let page_blocks = (16 << 10) / u64::from(self.device.identity().lba_bytes);
        let blocks = page_blocks * (1 + self.random.below(8));
        let room = written + blocks <= identity.zone_capacity_blocks;
        let kind = self.random.below(40);
        let manage = |action| Command::ZoneManagementSend { nsid, start: Lba(first), action, all: false, zrwa: false };
        let (command, written) = match kind {
            0..24 if room => {
                let (start, count, fua) = (Lba(first + written), blocks as u32, kind == 0);
                let write = Command::write(nsid, LbaRange { start, count }, fua);
                (write, written + blocks)
            }
            24..26 if room => {
                let append = Command::ZoneAppend { nsid, zone: Lba(first), blocks: blocks as u32, fua: kind == 24 };
                (append, written + blocks)
            }
            26..35 if written > 0 => {
                let start = Lba(first + self.random.below(written));
                (Command::Read { nsid, range: LbaRange { start, count: 1 }, fua: false }, written)
            }
            35 => (manage(ZoneSendAction::Finish), identity.zone_capacity_blocks),
            36 => (Command::Flush { nsid }, written),
            37 => (manage(ZoneSendAction::Close), written),
            _ => (manage(ZoneSendAction::Reset), 0),
        };
        self.written[zone as usize] = written;
        let data = match &command {
            Command::Write(_) | Command::ZoneAppend { .. } => self.data(blocks as u32),
            _ => None,
        };
        self.submit(command, data);
    }
}

/// `commands` commands with a power cut after each quarter of them.
fn drive(device: Box<dyn Device>, seed: u64, commands: u32, span: u64) -> String {
    let zoned = device.identity().zoned.is_some();
    let mut run = Run::new(device, seed);
    for at in 1..=commands {
        if zoned {
            run.random_zone_command()
        } else {
            run.random_command(span)
        }
        run.pause();
        if at % (commands / 4) == 0 {
            run.cut();
        }
    }
    run.finish()
}

/// An SSD of two dies and a few hundred units, so that everything happens often.
fn tiny() -> SsdConfig {
    let mut config = SsdConfig::reference();
    config.lba = ByteSize(512);
    config.max_transfer = ByteSize(16 << 10);
    config.namespaces = vec![ByteSize((50 << 12) + 3 * 512), ByteSize(30 << 12)];
    config.over_provisioning = None;
    config.geometry.channels = 2;
    config.geometry.chips_per_channel = 1;
    config.geometry.dies_per_chip = 1;
    config.geometry.blocks_per_plane = Some(12);
    config.geometry.pages_per_block = 6;
    config.geometry.page = ByteSize(4096);
    config.buffer.size = ByteSize(20 << 12);
    config.controller.processors = 2;
    config
}

/// What changes a configuration.
type Change = fn(&mut SsdConfig);

/// The tiny SSD with each option.
const VARIANTS: &[(&str, Change)] = &[
    ("plain", |_| ()),
    ("one namespace of 4 KiB blocks", |c| {
        c.lba = ByteSize(4096);
        c.namespaces = vec![ByteSize(80 << 12)];
    }),
    ("one-shot", |c| {
        c.cell.one_shot = true;
        c.cell.program = vec![Nanos::from_millis(1)];
    }),
    ("suspend, cost-benefit", |c| {
        c.suspend = Some(Suspend { suspend: Nanos(5_000), resume: Nanos(8_000), max_per_operation: 2 });
        c.gc.policy = GcPolicyKind::CostBenefit;
    }),
    ("SLC cache, sleep", |c| {
        let micros = Nanos::from_micros;
        let fold_after_idle = Some(Nanos::from_millis(2));
        let size = ByteSize(24 << 12);
        c.slc_cache =
            Some(SlcCache { size, read: micros(20), program: micros(100), erase: micros(1000), fold_after_idle });
        c.sleep = Some(Sleep { after: Nanos::from_millis(5), wake: micros(400) });
    }),
    ("power-loss protected", |c| c.buffer.power_loss_protected = true),
    ("filled", |c| c.initial = Initial { fill: 0.8, ..Initial::default() }),
    ("filled, hot and cold", |c| {
        let hot = Some(HotCold { writes: 0.9, space: 0.3 });
        c.initial = Initial { fill: 1.0, overwritten: Overwritten::HotCold, hot, ..Initial::default() };
    }),
];

#[test]
fn flash_ssds() {
    let mut now = Vec::new();
    for (name, change) in VARIANTS {
        for contents in [true, false] {
            let mut config = tiny();
            change(&mut config);
            let mut device = Ssd::new(&config).unwrap();
            if contents {
                device.keep_contents(&Contents::Memory, true).unwrap();
            }
            let digest = drive(Box::new(device), 7 + u64::from(contents), 1200, u64::MAX);
            now.push((format!("{name}{}", if contents { ", contents" } else { "" }), digest));
        }
    }
    compare(include_str!("data/digits/flash_ssds.txt"), &now);
}

#[test]
fn profiles() {
    let mut now = Vec::new();
    for name in builtin_names() {
        let options = BuildOptions { contents: Contents::Memory, power_cuts: true, ..BuildOptions::default() };
        let device = Profile::builtin(name).unwrap().build(&options).unwrap();
        // Close together, so that writes, reads and deallocations meet.
        now.push((name.to_owned(), drive(device, 3, 400, 2000)));
    }
    compare(include_str!("data/digits/profiles.txt"), &now);
}

/// A zoned profile, and its design.
const DESIGNS: &[(&str, &str)] = &[
    ("confznspp", "management.reset = 'full'"),
    ("confznspp", "management.finish = 'blocking'"),
    ("confznspp", "namespaces = [4]\nmanagement = { reset = 'partial', mapping = 'on-demand' }"),
    (
        "confznspp",
        "management = { reset = 'background', idle_after = '5ms' }\n\
         suspend = { suspend = '10us', resume = '5us', max_per_operation = 100 }",
    ),
    ("wd-zn540", "namespaces = [20, 12]"),
];

#[test]
fn zoned_designs() {
    let mut now = Vec::new();
    for (profile, changes) in DESIGNS {
        let device = changed_profile(profile, changes).unwrap().build(&BuildOptions::default()).unwrap();
        now.push((format!("{profile}: {}", changes.replace('\n', ", ")), drive(device, 5, 400, 0)));
    }
    compare(include_str!("data/digits/zoned_designs.txt"), &now);
}
