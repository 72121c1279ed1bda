//! Which ordered write of a state is there without which earlier one.

use crash::order::{OrderTuple, WirePlace};
use crash::{Entry, Event};

use super::task::Lost;

/// A write of a later epoch that is there, and one of an earlier epoch that is not, or not all of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Broken {
    earlier: (usize, WirePlace),
    later: (usize, WirePlace),
}

impl Broken {
    /// The first of a state that has `entries`, but for what is `lost`.
    pub(super) fn first(entries: &[Entry], lost: &[Lost]) -> Option<Self> {
        let is_there = |at: usize| !lost.iter().any(|lost| lost.entry == at && lost.lost_parts == lost.parts);
        let mut missing: Vec<usize> = lost.iter().map(|lost| lost.entry).collect();
        missing.sort_unstable();
        missing.into_iter().find_map(|at| {
            places(&entries.get(at)?.event).find_map(|place| {
                let rest = entries.iter().enumerate().skip(at + 1);
                // A stream that is opened again is another.
                let of_stream = rest.take_while(|(_, entry)| match &entry.event {
                    Event::StreamOpened { stream, .. } | Event::StreamClosed(stream) => *stream != place.stream,
                    _ => true,
                });
                let mut after = of_stream.filter(|(later, _)| is_there(*later)).filter_map(|(later, entry)| {
                    let found = places(&entry.event).find(|other| is_after(*other, place))?;
                    Some((later, found))
                });
                after.next().map(|later| Self { earlier: (at, place), later })
            })
        })
    }

    /// In words; `device_keeps_order` as the states were made.
    pub(super) fn words(&self, device_keeps_order: bool) -> String {
        let write =
            |(entry, place): (usize, WirePlace)| format!("#{entry} (stream {}, epoch {})", place.stream, place.epoch);
        let why = if device_keeps_order {
            "the earlier came late, when its epoch had been closed by arrival"
        } else {
            "the device does not keep the order that it was given"
        };
        format!("{} is there without {}, which comes before it: {why}", write(self.later), write(self.earlier))
    }
}

/// The epochs of a write.
fn places(event: &Event) -> impl Iterator<Item = WirePlace> + use<> {
    let order = match event {
        Event::Write { order, .. } => *order,
        _ => OrderTuple::NONE,
    };
    [order.first, order.second].into_iter().filter(|place| place.stream != 0)
}

/// Whether `other` is of a later epoch of the same stream, by serial numbers.
fn is_after(other: WirePlace, place: WirePlace) -> bool {
    other.stream == place.stream && (1..=i16::MAX as u16).contains(&other.epoch.wrapping_sub(place.epoch))
}

#[cfg(test)]
mod tests {
    use crash::order::Closing;
    use crash::{Content, WriteId};
    use units::Nanos;

    use super::*;

    fn write(id: u64, first: (u16, u16), second: (u16, u16)) -> Entry {
        let place = |(stream, epoch)| WirePlace { stream, epoch };
        let order = OrderTuple { queue: 1, first: place(first), second: place(second), closing: Closing::None };
        let content = Content::Zeroes(512);
        Entry {
            at: Nanos(id),
            event: Event::Write { id: WriteId(id), offset_bytes: id << 9, content, fua: false, order },
        }
    }

    fn event(event: Event) -> Entry {
        Entry { at: Nanos(9), event }
    }

    fn lost(entry: usize, lost_parts: usize) -> Lost {
        Lost { entry, offset_bytes: 0, len_bytes: 512, lost_parts, parts: 2, place: None, file: None, beside: None }
    }

    #[test]
    fn a_record_without_its_data_is_named_by_the_second_stream() {
        let none = (0, 0);
        // D of a task and of the journal, something without order, JD, JC.
        let log = [write(0, (2, 7), (1, 65535)), write(1, none, none), write(2, (1, 0), none), write(3, (1, 1), none)];
        let said = |lost: &[Lost], keeps| Broken::first(&log, lost).map(|broken| broken.words(keeps));
        assert_eq!(
            said(&[lost(0, 2)], false).unwrap(),
            "#2 (stream 1, epoch 0) is there without #0 (stream 1, epoch 65535), which comes before it: the device does not \
             keep the order that it was given"
        );
        assert!(said(&[lost(2, 1), lost(0, 2)], true).unwrap().starts_with("#2"), "a part of it is there");
        assert!(said(&[lost(2, 2), lost(0, 1)], true).unwrap().starts_with("#3"));
        assert!(said(&[lost(2, 2), lost(0, 1)], true).unwrap().ends_with("closed by arrival"));
    }

    #[test]
    fn what_comes_later_or_beside_or_of_another_stream_breaks_nothing() {
        let none = (0, 0);
        let log = [write(0, (1, 4), none), write(1, (1, 4), none), write(2, (3, 5), none), write(3, (1, 5), none)];
        assert_eq!(Broken::first(&log, &[lost(3, 2)]), None);
        assert_eq!(Broken::first(&log[..3], &[lost(0, 2)]), None);
        assert_eq!(Broken::first(&log, &[lost(0, 2), lost(3, 2)]), None);
        let again = [
            write(0, (1, 4), none),
            event(Event::StreamClosed(1)),
            event(Event::StreamOpened { stream: 1, first: 5 }),
            write(3, (1, 5), none),
        ];
        assert_eq!(Broken::first(&again, &[lost(0, 2)]), None);
    }
}
