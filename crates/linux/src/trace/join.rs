//! From events to spans: what belongs together is one request, through the kernel and the device.

use std::collections::{BTreeMap, VecDeque};

use ::trace::{RequestId, Span, Step, Track};
use units::Nanos;

use super::CLOCK_STEP;
use super::events::{Event, Extent, Kind, What};

const SECTOR_BYTES: u64 = 512;

/// A device and a sector of it.
type DeviceSector = ((u32, u32), u64);

/// A request between its events.
struct Open {
    at: Nanos,
    request: RequestId,
}

/// Spans of the kernel's events and of the device, by start; and how many commands the device was given.
///
/// A request of the kernel keeps one number through bio, hardware queue and NVMe queue; a device's request
/// that lies within a kernel's, on the same bytes, takes over its number.
pub(super) fn spans(events: &[Event], device: Vec<Span>) -> (Vec<Span>, u64) {
    let mut kernel = Kernel::default();
    for event in events {
        kernel.event(event);
    }
    let commands = kernel.commands;
    let mut spans = kernel.spans;
    let issued: Vec<Span> = spans
        .iter()
        .filter(|span| span.step == Step::Command && matches!(span.track, Track::HostQueue(_)))
        .copied()
        .collect();
    let numbers = same_requests(&issued, &device, kernel.last);
    spans.extend(
        device
            .into_iter()
            .map(|span| Span { request: numbers.get(&span.request).copied().unwrap_or(span.request), ..span }),
    );
    spans.sort_by_key(|span| (span.start, span.end, span.track, span.request));
    (spans, commands)
}

#[derive(Default)]
struct Kernel {
    spans: Vec<Span>,
    commands: u64,
    /// The number last given.
    last: u64,
    /// Bios on their way, oldest first, by device and sector.
    bios: BTreeMap<DeviceSector, VecDeque<(Nanos, Kind, Extent)>>,
    inserted: BTreeMap<(Kind, Extent), VecDeque<Nanos>>,
    issued: BTreeMap<(Kind, Extent), VecDeque<Open>>,
    nvme: BTreeMap<(u32, u16, u32), Open>,
}

impl Kernel {
    fn event(&mut self, event: &Event) {
        let at = event.at;
        match event.what {
            What::BioQueued(kind, extent) => {
                self.bios.entry((extent.device, extent.sector)).or_default().push_back((at, kind, extent));
            }
            What::BioCompleted(kind, extent) => self.bio_done(at, kind, extent, RequestId::default()),
            What::Inserted(kind, extent) => self.inserted.entry((kind, extent)).or_default().push_back(at),
            What::Issued(kind, extent) => {
                self.last += 1;
                self.commands += 1;
                let request = RequestId(self.last);
                if let Some(since) = pop(&mut self.inserted, &(kind, extent)) {
                    self.push(since, at, Track::HostQueue(0), Step::Queued, request, extent);
                }
                self.issued.entry((kind, extent)).or_default().push_back(Open { at, request });
            }
            What::Completed(kind, extent) => {
                let Some(open) = pop(&mut self.issued, &(kind, extent)) else { return };
                self.push(open.at, at, Track::HostQueue(0), Step::Command, open.request, extent);
                self.bios_of(at, kind, extent, open.request);
            }
            What::NvmeSetUp { controller, queue, command } => {
                // The driver sets a command up just before it tells of the request's issue. The
                // controller's own queue has requests of no disk.
                let request = RequestId(if queue == 0 { 0 } else { self.last + 1 });
                self.nvme.insert((controller, queue, command), Open { at, request });
            }
            What::NvmeCompleted { controller, queue, command } => {
                let Some(open) = self.nvme.remove(&(controller, queue, command)) else { return };
                let nowhere = Extent { device: (0, 0), sector: 0, sectors: 0 };
                self.push(open.at, at, Track::NvmeQueue(queue), Step::Command, open.request, nowhere);
            }
        }
    }

    /// Ends the bios that a completed request carried.
    fn bios_of(&mut self, at: Nanos, kind: Kind, extent: Extent, request: RequestId) {
        let end = extent.sector + u64::from(extent.sectors.max(1));
        let starts: Vec<u64> = self
            .bios
            .range((extent.device, extent.sector)..(extent.device, end))
            .map(|((_, sector), _)| *sector)
            .collect();
        for sector in starts {
            self.bio_done(at, kind, Extent { sector, ..extent }, request);
        }
    }

    /// Ends the oldest bio of `kind` that starts where `extent` does.
    fn bio_done(&mut self, at: Nanos, kind: Kind, extent: Extent, request: RequestId) {
        let key = (extent.device, extent.sector);
        let Some(queue) = self.bios.get_mut(&key) else { return };
        let Some(place) = queue.iter().position(|(_, of, _)| *of == kind) else { return };
        let Some((since, kind, extent)) = queue.remove(place) else { return };
        if queue.is_empty() {
            self.bios.remove(&key);
        }
        let step = match kind {
            Kind::Read => Step::Read,
            Kind::Write => Step::Write,
            Kind::Flush => Step::Flush,
            Kind::Discard => Step::Discard,
            Kind::Other => return,
        };
        self.push(since, at, Track::Job(0), step, request, extent);
    }

    fn push(&mut self, start: Nanos, end: Nanos, track: Track, step: Step, request: RequestId, extent: Extent) {
        let offset = extent.sector.saturating_mul(SECTOR_BYTES);
        let bytes = u32::try_from(u64::from(extent.sectors) * SECTOR_BYTES).unwrap_or(u32::MAX);
        self.spans.push(Span { start, end: end.max(start), track, step, request, offset, bytes });
    }
}

fn pop<K: Ord, V>(map: &mut BTreeMap<K, VecDeque<V>>, key: &K) -> Option<V> {
    let queue = map.get_mut(key)?;
    let value = queue.pop_front();
    if queue.is_empty() {
        map.remove(key);
    }
    value
}

/// The kernel's number for each of the device's requests; a number above `last` where there is none, so
/// that two requests never share one.
fn same_requests(issued: &[Span], device: &[Span], last: u64) -> BTreeMap<RequestId, RequestId> {
    let mut first: BTreeMap<RequestId, &Span> = BTreeMap::new();
    for span in device.iter().filter(|span| span.request != RequestId::default()) {
        let known = first.entry(span.request).or_insert(span);
        if span.start < known.start {
            *known = span;
        }
    }
    let mut by_offset: BTreeMap<u64, VecDeque<&Span>> = BTreeMap::new();
    let mut sorted: Vec<&Span> = issued.iter().collect();
    sorted.sort_by_key(|span| span.start);
    for span in sorted {
        by_offset.entry(span.offset).or_default().push_back(span);
    }
    let mut order: Vec<&Span> = first.values().copied().collect();
    order.sort_by_key(|span| (span.start, span.request));
    let mut numbers = BTreeMap::new();
    for span in order {
        let within = |outer: &&&Span| outer.start <= span.start + CLOCK_STEP && span.start <= outer.end;
        let found = by_offset.get_mut(&span.offset).and_then(|queue| {
            let place = queue.iter().position(|outer| within(&outer))?;
            queue.remove(place)
        });
        let number = found.map_or(RequestId(last.saturating_add(span.request.0)), |outer| outer.request);
        numbers.insert(span.request, number);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXTENT: Extent = Extent { device: (259, 0), sector: 2048, sectors: 8 };

    fn event(at: u64, what: What) -> Event {
        Event { at: Nanos(at), what }
    }

    fn request(start: u64) -> Vec<Event> {
        vec![
            event(start, What::BioQueued(Kind::Read, EXTENT)),
            event(start + 1, What::Inserted(Kind::Read, EXTENT)),
            event(start + 5, What::NvmeSetUp { controller: 0, queue: 1, command: 7 }),
            event(start + 5, What::Issued(Kind::Read, EXTENT)),
            event(start + 80, What::NvmeCompleted { controller: 0, queue: 1, command: 7 }),
            event(start + 81, What::Completed(Kind::Read, EXTENT)),
        ]
    }

    #[test]
    fn one_number_from_the_bio_to_the_die() {
        let die = Span {
            start: Nanos(120),
            end: Nanos(170),
            track: Track::Die { channel: 0, die: 3 },
            step: Step::FlashRead,
            request: RequestId(99),
            offset: 2048 * 512,
            bytes: 4096,
        };
        let own = Span { request: RequestId(0), step: Step::FlashErase, ..die };
        let (spans, commands) = spans(&request(100), vec![die, own]);
        let of = |track: Track, step: Step| spans.iter().find(|span| span.track == track && span.step == step).unwrap();
        let bio = of(Track::Job(0), Step::Read);
        assert_eq!((bio.start, bio.end, bio.bytes), (Nanos(100), Nanos(181), 4096));
        let queued = of(Track::HostQueue(0), Step::Queued);
        assert_eq!((queued.start, queued.end), (Nanos(101), Nanos(105)));
        for (track, step) in
            [(Track::HostQueue(0), Step::Command), (Track::NvmeQueue(1), Step::Command), (die.track, Step::FlashRead)]
        {
            assert_eq!(of(track, step).request, bio.request, "{track:?}");
        }
        assert_eq!(of(die.track, Step::FlashErase).request, RequestId(0));
        assert_eq!(commands, 1);
    }

    #[test]
    fn two_at_one_place_are_two() {
        let mut events = request(100);
        events.extend(request(1000));
        let (spans, commands) = spans(&events, Vec::new());
        assert_eq!(commands, 2);
        let bios: Vec<_> = spans.iter().filter(|span| span.track == Track::Job(0)).collect();
        assert_eq!(bios.len(), 2);
        assert_ne!(bios[0].request, bios[1].request);
    }

    #[test]
    fn ends_without_beginnings_are_passed_over() {
        let events = [
            event(1, What::Completed(Kind::Write, EXTENT)),
            event(2, What::BioCompleted(Kind::Write, EXTENT)),
            event(3, What::NvmeCompleted { controller: 0, queue: 1, command: 1 }),
        ];
        assert_eq!(spans(&events, Vec::new()), (Vec::new(), 0));
    }

    #[test]
    fn a_request_of_the_device_alone_keeps_to_itself() {
        let span = Span {
            start: Nanos(5000),
            end: Nanos(5100),
            track: Track::Controller,
            step: Step::Process,
            request: RequestId(1),
            offset: 4096,
            bytes: 4096,
        };
        let (spans, _) = spans(&request(100), vec![span]);
        let device = spans.iter().find(|span| span.track == Track::Controller).unwrap();
        assert!(spans.iter().all(|span| span.track == Track::Controller || span.request != device.request));
    }
}
