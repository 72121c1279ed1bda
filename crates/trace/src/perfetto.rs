//! A trace that <https://ui.perfetto.dev> opens.
//!
//! Perfetto's format is a protobuf message `Trace` of `TracePacket`s
//! (`protos/perfetto/trace/trace_packet.proto` and `track_event/*.proto` in
//! its repository). Its SDKs stamp packets with the machine's time; ours carry
//! the run's, in nanoseconds. All spans of one request share a flow, so the
//! viewer draws arrows from the job through the queues down to the die.

use std::collections::BTreeSet;
use std::io::{self, Write};

use units::Nanos;

use crate::lanes::{Lane, lay_out};
use crate::protobuf::Message;
use crate::{Layer, RequestId, Span, Step};

/// Field numbers and values of Perfetto's schema.
mod schema {
    pub(super) const TRACE_PACKET: u32 = 1;

    pub(super) const PACKET_TIMESTAMP: u32 = 8;
    pub(super) const PACKET_SEQUENCE_ID: u32 = 10;
    pub(super) const PACKET_TRACK_EVENT: u32 = 11;
    pub(super) const PACKET_INTERNED_DATA: u32 = 12;
    pub(super) const PACKET_SEQUENCE_FLAGS: u32 = 13;
    pub(super) const PACKET_TRACK_DESCRIPTOR: u32 = 60;
    pub(super) const INCREMENTAL_STATE_CLEARED: u64 = 1;
    pub(super) const NEEDS_INCREMENTAL_STATE: u64 = 2;

    pub(super) const DESCRIPTOR_UUID: u32 = 1;
    pub(super) const DESCRIPTOR_NAME: u32 = 2;
    pub(super) const DESCRIPTOR_PARENT: u32 = 5;
    pub(super) const DESCRIPTOR_CHILD_ORDERING: u32 = 11;
    pub(super) const DESCRIPTOR_RANK: u32 = 12;
    pub(super) const ORDERING_EXPLICIT: u64 = 3;

    pub(super) const INTERNED_CATEGORY: u32 = 1;
    pub(super) const INTERNED_EVENT_NAME: u32 = 2;
    pub(super) const INTERNED_ANNOTATION_NAME: u32 = 3;
    pub(super) const ENTRY_ID: u32 = 1;
    pub(super) const ENTRY_NAME: u32 = 2;

    pub(super) const EVENT_CATEGORY: u32 = 3;
    pub(super) const EVENT_ANNOTATION: u32 = 4;
    pub(super) const EVENT_TYPE: u32 = 9;
    pub(super) const EVENT_NAME: u32 = 10;
    pub(super) const EVENT_TRACK: u32 = 11;
    pub(super) const EVENT_FLOW: u32 = 47;
    pub(super) const SLICE_BEGIN: u64 = 1;
    pub(super) const SLICE_END: u64 = 2;

    pub(super) const ANNOTATION_NAME: u32 = 1;
    pub(super) const ANNOTATION_UINT: u32 = 3;
}

/// The one packet sequence of the file.
const SEQUENCE: u64 = 1;
/// Track of the whole stack; layers hang under it, lanes under layers.
const ROOT: u64 = 1;
const ANNOTATIONS: [&str; 3] = ["request", "offset", "bytes"];

/// Writes `spans` as a Perfetto trace.
///
/// # Errors
/// What `out` reports.
pub fn write_perfetto(spans: &[Span], mut out: impl Write) -> io::Result<()> {
    let lanes = lay_out(spans);
    let layers: BTreeSet<Layer> = lanes.iter().map(|lane| lane.track.layer()).collect();
    packet(&mut out, interned(&lanes).uint(schema::PACKET_SEQUENCE_FLAGS, schema::INCREMENTAL_STATE_CLEARED))?;

    packet(&mut out, descriptor(ROOT, "Storage stack", None))?;
    for layer in layers {
        let parent = Some((ROOT, layer_number(layer)));
        packet(&mut out, descriptor(layer_track(layer), &layer.to_string(), parent))?;
    }
    for (index, lane) in lanes.iter().enumerate() {
        let name = match lane.number {
            0 => lane.track.to_string(),
            number => format!("{}, lane {}", lane.track, number + 1),
        };
        let parent = Some((layer_track(lane.track.layer()), index as u64));
        packet(&mut out, descriptor(lane_track(index), &name, parent))?;
    }

    // Lanes are in layer order, so that at one instant an outer span opens first.
    let mut edges: Vec<(Nanos, usize, usize)> = Vec::with_capacity(spans.len() * 2);
    for (index, lane) in lanes.iter().enumerate() {
        for (position, span) in lane.spans.iter().enumerate() {
            edges.push((span.start, index, 2 * position));
            edges.push((span.end, index, 2 * position + 1));
        }
    }
    edges.sort_unstable();
    for (at, index, edge) in edges {
        let span = lanes[index].spans[edge / 2];
        let event =
            if edge % 2 == 0 { begin(span) } else { Message::default().uint(schema::EVENT_TYPE, schema::SLICE_END) };
        let event = event.uint(schema::EVENT_TRACK, lane_track(index));
        packet(
            &mut out,
            Message::default()
                .uint(schema::PACKET_TIMESTAMP, at.0)
                .message(schema::PACKET_TRACK_EVENT, &event)
                .uint(schema::PACKET_SEQUENCE_FLAGS, schema::NEEDS_INCREMENTAL_STATE),
        )?;
    }
    out.flush()
}

fn packet(out: &mut impl Write, packet: Message) -> io::Result<()> {
    let packet = packet.uint(schema::PACKET_SEQUENCE_ID, SEQUENCE);
    out.write_all(Message::default().message(schema::TRACE_PACKET, &packet).as_bytes())
}

/// The names that events refer to by number.
fn interned(lanes: &[Lane<'_>]) -> Message {
    let entry = |id: u64, name: &str| Message::default().uint(schema::ENTRY_ID, id).text(schema::ENTRY_NAME, name);
    let mut data = Message::default();
    for layer in Layer::ALL {
        data = data.message(schema::INTERNED_CATEGORY, &entry(layer_number(layer), &layer.to_string()));
    }
    let steps: BTreeSet<Step> = lanes.iter().flat_map(|lane| lane.spans.iter().map(|span| span.step)).collect();
    for step in steps {
        data = data.message(schema::INTERNED_EVENT_NAME, &entry(step_number(step), &step.to_string()));
    }
    for (id, name) in (1..).zip(ANNOTATIONS) {
        data = data.message(schema::INTERNED_ANNOTATION_NAME, &entry(id, name));
    }
    Message::default().message(schema::PACKET_INTERNED_DATA, &data)
}

fn descriptor(uuid: u64, name: &str, parent_and_rank: Option<(u64, u64)>) -> Message {
    let mut track = Message::default()
        .uint(schema::DESCRIPTOR_UUID, uuid)
        .text(schema::DESCRIPTOR_NAME, name)
        .uint(schema::DESCRIPTOR_CHILD_ORDERING, schema::ORDERING_EXPLICIT);
    if let Some((parent, rank)) = parent_and_rank {
        track = track.uint(schema::DESCRIPTOR_PARENT, parent).uint(schema::DESCRIPTOR_RANK, rank);
    }
    Message::default().message(schema::PACKET_TRACK_DESCRIPTOR, &track)
}

fn begin(span: &Span) -> Message {
    let mut event = Message::default()
        .uint(schema::EVENT_TYPE, schema::SLICE_BEGIN)
        .uint(schema::EVENT_CATEGORY, layer_number(span.track.layer()))
        .uint(schema::EVENT_NAME, step_number(span.step));
    for (id, value) in (1..).zip([span.request.0, span.offset, u64::from(span.bytes)]) {
        let annotation = Message::default().uint(schema::ANNOTATION_NAME, id).uint(schema::ANNOTATION_UINT, value);
        event = event.message(schema::EVENT_ANNOTATION, &annotation);
    }
    if span.request != RequestId::default() {
        event = event.fixed64(schema::EVENT_FLOW, span.request.0);
    }
    event
}

/// Interned names count from 1: 0 is "absent" to protobuf.
fn step_number(step: Step) -> u64 {
    step as u64 + 1
}

fn layer_number(layer: Layer) -> u64 {
    layer as u64 + 1
}

fn layer_track(layer: Layer) -> u64 {
    ROOT + layer_number(layer)
}

fn lane_track(index: usize) -> u64 {
    ROOT + Layer::ALL.len() as u64 + 1 + index as u64
}
