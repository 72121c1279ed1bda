//! Traces decoded by a reader that shares no code with the writer.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

use proptest::prelude::*;
use trace::{Layer, RequestId, Span, Step, Track, follow, write_perfetto};
use units::Nanos;

/// A decoded field: a number, or bytes.
#[derive(Clone, Debug)]
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    fn number(&self) -> u64 {
        match self {
            Value::Number(number) => *number,
            Value::Bytes(_) => panic!("{self:?} is no number"),
        }
    }

    fn bytes(&self) -> &'a [u8] {
        match self {
            Value::Bytes(bytes) => bytes,
            Value::Number(_) => panic!("{self:?} is no message"),
        }
    }

    fn text(&self) -> &'a str {
        std::str::from_utf8(self.bytes()).unwrap()
    }
}

fn varint(input: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = input.split_first().unwrap();
        *input = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return value;
        }
    }
    panic!("varint of more than ten bytes")
}

fn decode(mut input: &[u8]) -> Vec<(u64, Value<'_>)> {
    let mut fields = Vec::new();
    while !input.is_empty() {
        let key = varint(&mut input);
        let value = match key & 7 {
            0 => Value::Number(varint(&mut input)),
            1 => {
                let (bytes, rest) = input.split_at(8);
                input = rest;
                Value::Number(u64::from_le_bytes(bytes.try_into().unwrap()))
            }
            2 => {
                let length = varint(&mut input) as usize;
                let (bytes, rest) = input.split_at(length);
                input = rest;
                Value::Bytes(bytes)
            }
            other => panic!("wire type {other}"),
        };
        fields.push((key >> 3, value));
    }
    fields
}

fn all<'a>(fields: &[(u64, Value<'a>)], number: u64) -> Vec<Value<'a>> {
    fields.iter().filter(|(field, _)| *field == number).map(|(_, value)| value.clone()).collect()
}

fn one<'a>(fields: &[(u64, Value<'a>)], number: u64) -> Option<Value<'a>> {
    let mut found = all(fields, number);
    assert!(found.len() <= 1, "field {number} repeated");
    found.pop()
}

/// A span as the trace shows it: start, end, lane name, layer name, step name,
/// category, request, offset, bytes, flow.
type Shown = (u64, u64, String, String, String, String, u64, u64, u64, Option<u64>);

/// Reads a trace as the viewer does, checking what it relies on: one sequence
/// whose first packet clears the state, names and tracks before their use,
/// packets by time, begin and end in turn on every track.
fn read(bytes: &[u8]) -> Vec<Shown> {
    let mut names: BTreeMap<(u64, u64), String> = BTreeMap::new();
    let mut tracks: BTreeMap<u64, (String, Option<u64>)> = BTreeMap::new();
    let mut open: BTreeMap<u64, Shown> = BTreeMap::new();
    let mut shown = Vec::new();
    let mut last = 0;
    for (index, (field, packet)) in decode(bytes).into_iter().enumerate() {
        assert_eq!(field, 1, "only packets in a trace");
        let packet = decode(packet.bytes());
        assert_eq!(one(&packet, 10).unwrap().number(), 1, "one sequence");
        if index == 0 {
            assert_eq!(one(&packet, 13).unwrap().number(), 1, "the first packet clears the incremental state");
        }
        if let Some(data) = one(&packet, 12) {
            for (kind, entry) in decode(data.bytes()) {
                let entry = decode(entry.bytes());
                let key = (kind, one(&entry, 1).unwrap().number());
                assert!(names.insert(key, one(&entry, 2).unwrap().text().to_owned()).is_none(), "{key:?} twice");
            }
        }
        if let Some(track) = one(&packet, 60) {
            let track = decode(track.bytes());
            let parent = one(&track, 5).map(|parent| parent.number());
            assert!(parent.is_none_or(|parent| tracks.contains_key(&parent)), "parent before child");
            let entry = (one(&track, 2).unwrap().text().to_owned(), parent);
            assert!(!tracks.values().any(|other| *other == entry), "siblings named alike are merged: {entry:?}");
            assert!(tracks.insert(one(&track, 1).unwrap().number(), entry).is_none(), "uuid twice");
        }
        let Some(event) = one(&packet, 11) else { continue };
        assert_eq!(one(&packet, 13).unwrap().number(), 2, "events need the interned names");
        let at = one(&packet, 8).unwrap().number();
        assert!(last <= at, "packets by time");
        last = at;
        let event = decode(event.bytes());
        let uuid = one(&event, 11).unwrap().number();
        match one(&event, 9).unwrap().number() {
            1 => {
                let arguments: BTreeMap<&str, u64> = all(&event, 4)
                    .iter()
                    .map(|annotation| {
                        let annotation = decode(annotation.bytes());
                        let name = &names[&(3, one(&annotation, 1).unwrap().number())];
                        (name.as_str(), one(&annotation, 3).unwrap().number())
                    })
                    .collect();
                let (lane, layer) = &tracks[&uuid];
                let begun = (
                    at,
                    0,
                    lane.clone(),
                    tracks[&layer.unwrap()].0.clone(),
                    names[&(2, one(&event, 10).unwrap().number())].clone(),
                    names[&(1, one(&event, 3).unwrap().number())].clone(),
                    arguments["request"],
                    arguments["offset"],
                    arguments["bytes"],
                    one(&event, 47).map(|flow| flow.number()),
                );
                assert!(open.insert(uuid, begun).is_none(), "two spans open on one lane");
            }
            2 => {
                let mut ended = open.remove(&uuid).unwrap();
                ended.1 = at;
                shown.push(ended);
            }
            other => panic!("event type {other}"),
        }
    }
    assert!(open.is_empty(), "{open:?} never ended");
    shown
}

fn expected(span: &Span) -> Shown {
    let request = span.request.0;
    let layer = span.track.layer().to_string();
    let (offset, bytes) = (span.offset, u64::from(span.bytes));
    let flow = (request != 0).then_some(request);
    let (lane, step) = (span.track.to_string(), span.step.to_string());
    (span.start.0, span.end.0, lane, layer.clone(), step, layer, request, offset, bytes, flow)
}

fn tracks() -> impl Strategy<Value = Track> {
    prop_oneof![
        (0..3u16).prop_map(Track::Job),
        (0..2u16).prop_map(Track::Cpu),
        (0..2u16).prop_map(Track::HostQueue),
        (0..2u16).prop_map(Track::NvmeQueue),
        Just(Track::Controller),
        Just(Track::Link),
        Just(Track::Buffer),
        (0..4u16).prop_map(Track::Channel),
        (0..8u16).prop_map(|die| Track::Die { channel: die / 2, die }),
        Just(Track::Mechanism),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    use Step::*;
    prop::sample::select(vec![
        Read,
        Write,
        Flush,
        Discard,
        ZoneReset,
        ZoneFinish,
        Queued,
        Command,
        Process,
        Transfer,
        BufferWait,
        OrderWait,
        ChannelTransfer,
        FlashRead,
        FlashProgram,
        FlashErase,
        GarbageCollect,
        Seek,
        Rotate,
        CpuBusy,
        LinkLatency,
        Firmware,
    ])
}

fn spans() -> impl Strategy<Value = Vec<Span>> {
    let span = (0..200u64, 0..60u64, tracks(), steps(), 0..9u64, any::<u64>(), any::<u32>()).prop_map(
        |(start, length, track, step, request, offset, bytes)| Span {
            start: Nanos(start),
            end: Nanos(start + length),
            track,
            step,
            request: RequestId(request),
            offset,
            bytes,
        },
    );
    prop::collection::vec(span, 0..120)
}

fn perfetto(spans: &[Span]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_perfetto(spans, &mut bytes).unwrap();
    bytes
}

proptest! {
    #[test]
    fn every_span_is_shown_once_on_its_track(spans in spans()) {
        let mut shown = read(&perfetto(&spans));
        for span in &mut shown {
            // Lane 2 and up of a track carry its name before a comma.
            if let Some((track, lane)) = span.2.split_once(", lane ") {
                prop_assert!(lane.parse::<usize>().unwrap() >= 2);
                span.2 = track.to_owned();
            }
        }
        shown.sort();
        let mut wanted: Vec<_> = spans.iter().map(expected).collect();
        wanted.sort();
        prop_assert_eq!(shown, wanted);
    }

    #[test]
    fn lanes_are_as_few_as_spans_open_at_once(spans in spans()) {
        let shown = read(&perfetto(&spans));
        let mut lanes: BTreeMap<Track, std::collections::BTreeSet<&str>> = BTreeMap::new();
        for (.., lane, _, _, _, _, _, _, _) in &shown {
            let name = lane.split(", lane").next().unwrap();
            let track = spans.iter().map(|span| span.track).find(|track| track.to_string() == name).unwrap();
            lanes.entry(track).or_default().insert(lane);
        }
        for (track, lanes) in lanes {
            let on_track = || spans.iter().filter(|span| span.track == track);
            let most = on_track()
                .map(|at| {
                    let empty = on_track().filter(|other| other.start == other.end && other.start == at.start).count();
                    let open = on_track().filter(|other| other.start <= at.start && at.start < other.end).count();
                    open + usize::from(empty > 0)
                })
                .max()
                .unwrap_or(0);
            prop_assert!(lanes.len() <= most, "{} lanes of {track} for {most} open spans", lanes.len());
        }
    }

    #[test]
    fn own_times_add_up(spans in spans(), request in 1..9u64) {
        if let Some(path) = follow(&spans, RequestId(request)) {
            let own: Nanos = path.hops.iter().map(|hop| hop.own_time()).sum();
            prop_assert_eq!(own + path.unrecorded, path.duration());
            prop_assert!(path.hops.iter().all(|hop| hop.own_time() <= hop.duration()));
            prop_assert!(path.hops.iter().all(|hop| path.start <= hop.span.start && hop.span.end <= path.end));
            prop_assert!(path.start <= path.completed && path.completed <= path.end);
            let count = spans.iter().filter(|span| span.request.0 == request).count();
            prop_assert_eq!(path.hops.len(), count);
        }
    }
}

#[test]
fn layers_are_in_order() {
    assert!(Layer::ALL.windows(2).all(|pair| pair[0] < pair[1]));
}

/// `protoc --decode_raw` must accept the file and see the same slices.
#[test]
fn protoc_reads_it() {
    let job = Span {
        start: Nanos(1000),
        end: Nanos(91_000),
        track: Track::Job(0),
        step: Step::Read,
        request: RequestId(300),
        offset: 1 << 40,
        bytes: 4096,
    };
    let die = Span { start: Nanos(10_000), track: Track::Die { channel: 2, die: 5 }, step: Step::FlashRead, ..job };
    let bytes = perfetto(&[die, job]);
    let child = Command::new("protoc").arg("--decode_raw").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let Ok(mut child) = child else {
        println!("skipped: protoc is not installed (Debian: protobuf-compiler)");
        return;
    };
    child.stdin.take().unwrap().write_all(&bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    // Field 11 is a track event, its field 9 the type, its field 47 the flow.
    assert_eq!(text.matches("\n  11 {\n    9: 1\n").count(), 2, "{text}");
    assert_eq!(text.matches("\n  11 {\n    9: 2\n").count(), 2, "{text}");
    assert_eq!(text.matches("    47: 0x000000000000012c\n").count(), 2, "{text}");
    assert!(text.contains("2: \"Die 5 (channel 2)\""), "{text}");
    assert!(text.contains("2: \"flash read\""), "{text}");
}
