//! Power cuts: what may be left of each zone.

use crash::Choice;
use nvme::{Command, CommandId, Lba, LbaRange, NamespaceId, QueueId, ZoneAttributes, ZoneDescriptor, ZoneState};
use trace::RequestId;

use super::{Host, Track, Version, report_all, stamp_of};
use crate::zoned::naive::{Model, ModelZone, Shape, UNWRITTEN, descriptors};
use crate::{Device, Submission};

impl Host {
    /// Cuts the power, lets some undecided writes survive, and finds for each
    /// zone a version that explains what is there. The host goes on from that.
    pub(in crate::zoned::verify) fn cut(&mut self, survivors: Choice) -> Result<(), String> {
        let protected = !self.device.identity().volatile_write_cache;
        let cut = self.device.power_cut(self.now);
        self.outstanding.clear();
        let survivors = survivors.of(cut.undecided.len());
        for (at, write) in cut.undecided.iter().enumerate() {
            if survivors.has(at) {
                self.device.survive(write);
            }
        }
        for namespace in 0..self.models.len() {
            let nsid = NamespaceId(namespace as u32 + 1);
            let report = self.ask(report_all(nsid))?;
            let found = descriptors(&report);
            for (index, descriptor) in found.iter().enumerate() {
                let pointer = descriptor.wp.get().wrapping_sub(descriptor.zslba.get());
                let state = descriptor.state().ok_or("a reserved zone state")?;
                let stamps = self.stamps(nsid, namespace, index, state)?;
                let track = &self.tracks[namespace][index];
                let shape = &self.models[namespace].shape;
                let explained = track.versions.iter().find_map(|version| {
                    let durable = track.durable.get(&version.life).copied().unwrap_or(0);
                    after_cut(version, if protected { u64::MAX } else { durable }, shape, descriptor, stamps.as_deref())
                });
                let Some(zone) = explained else {
                    let versions: Vec<_> = track
                        .versions
                        .iter()
                        .map(|version| {
                            let zone = &version.zone;
                            let durable = track.durable.get(&version.life).copied().unwrap_or(0);
                            (zone.state, zone.pointer, zone.high, durable, &zone.stamps)
                        })
                        .collect();
                    return Err(format!(
                        "after the cut zone {index} of {nsid:?} is {state:?} with pointer {pointer}, \
                         attributes {:#x} and {stamps:?}; \
                         it may be one of (state, pointer, high, durable, stamps) {versions:?}",
                        descriptor.za
                    ));
                };
                self.models[namespace].zones[index] = zone.clone();
                // What survived one cut survives the next.
                let life = self.tracks[namespace][index].life + 1;
                self.tracks[namespace][index] = Track {
                    life,
                    acknowledged: zone.high,
                    durable: [(life, zone.high)].into(),
                    versions: vec![Version { order: self.order, life, zone }],
                };
            }
            let model = &self.models[namespace];
            if model.shape.max_active.is_some_and(|limit| model.active() > limit) || model.open() > 0 {
                return Err(format!("{} zones open and {} active after the cut", model.open(), model.active()));
            }
        }
        self.completed = self.order;
        self.ahead.clone_from(&self.models);
        self.recorder.take();
        self.read_everything()
    }

    /// One command alone, unchecked: its data.
    fn ask(&mut self, command: Command) -> Result<Box<[u8]>, String> {
        let what = format!("{command:?}");
        let submission =
            Submission { queue: QueueId(1), cid: CommandId(u16::MAX), command, data: None, request: RequestId(0) };
        self.device.submit(self.now, submission);
        let mut done = Vec::new();
        while done.is_empty() {
            self.now = self.device.next_event().ok_or_else(|| format!("{what} never completes"))?;
            self.device.advance(self.now, &mut done);
        }
        let completion = done.remove(0);
        match completion.data {
            Some(data) if completion.status.is_success() => Ok(data),
            _ => Err(format!("{what} ends with {}", completion.status)),
        }
    }

    /// What a zone holds; nobody can say of one that is offline, or of a device that
    /// keeps no contents.
    fn stamps(
        &mut self,
        nsid: NamespaceId,
        namespace: usize,
        index: usize,
        state: ZoneState,
    ) -> Result<Option<Vec<u64>>, String> {
        if state == ZoneState::Offline || !self.device.identity().keeps_contents {
            return Ok(None);
        }
        let zone_blocks = self.models[namespace].shape.zone_blocks;
        let lba_bytes = self.device.identity().lba_bytes as usize;
        let mut stamps = Vec::new();
        for start in (0..zone_blocks).step_by(16) {
            let range = LbaRange { start: Lba(index as u64 * zone_blocks + start), count: 16 };
            let data = self.ask(Command::Read { nsid, range, fua: false })?;
            for bytes in data.chunks(lba_bytes) {
                stamps.push(stamp_of(bytes)?);
            }
        }
        Ok(Some(stamps))
    }
}

/// What a zone is after a power cut, if a version explains what was found. Blocks
/// below `durable` must be there.
fn after_cut(
    version: &Version,
    durable: u64,
    shape: &Shape,
    found: &ZoneDescriptor,
    stamps: Option<&[u64]>,
) -> Option<ModelZone> {
    let mut model = Model::new(Shape { zones: 1, ..shape.clone() });
    let state = found.state()?;
    let pointer = found.wp.get().wrapping_sub(found.zslba.get());
    let finished = version.zone.state == ZoneState::Full && version.zone.high < shape.capacity;
    let high = version.zone.high;
    for kept in durable.min(high)..=high {
        let mut zone = version.zone.clone();
        for stamp in &mut zone.stamps[kept as usize..] {
            *stamp = UNWRITTEN;
        }
        if stamps.is_some_and(|stamps| zone.stamps != stamps) {
            continue;
        }
        zone.high = kept;
        // With a ZRWA the write pointer is behind the last block.
        zone.pointer = zone.pointer.min(kept);
        if zone.state == ZoneState::Full && !finished && kept < high && state != ZoneState::Full {
            (zone.state, zone.pointer) = (ZoneState::Closed, kept);
        }
        model.zones[0] = zone;
        model.settle(0);
        let zone = &model.zones[0];
        let has_pointer = matches!(state, ZoneState::Empty | ZoneState::Closed);
        let same_pointer = !has_pointer || zone.pointer == pointer;
        if zone.state == state && same_pointer && attributes_of(zone) == found.attributes() {
            return Some(zone.clone());
        }
    }
    None
}

fn attributes_of(zone: &ModelZone) -> ZoneAttributes {
    [
        (zone.finished_by_controller, ZoneAttributes::FINISHED_BY_CONTROLLER),
        (zone.finish_recommended, ZoneAttributes::FINISH_RECOMMENDED),
        (zone.reset_recommended, ZoneAttributes::RESET_RECOMMENDED),
        (zone.has_zrwa, ZoneAttributes::ZRWA_VALID),
        (zone.extension.is_some(), ZoneAttributes::EXTENSION_VALID),
    ]
    .into_iter()
    .filter(|(set, _)| *set)
    .map(|(_, attribute)| attribute)
    .collect()
}
