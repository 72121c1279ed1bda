//! What requests on the control socket do.

use nvme::{Lba, NamespaceId};
use ssd::faults::FaultPlan;

use super::message::{
    MAX_ZONES, NamespaceStatus, QueueStatus, Reply, Request, Status, ZoneEntry, ZonePage, state_name,
};
use crate::engine::Engine;
use crate::front_end::FrontEnd;

/// Executes a request; `stop` is set when serving is to end.
pub(crate) fn execute<F: FrontEnd>(
    request: Request,
    front_end: &mut F,
    engine: &mut Engine<F::Context>,
    faults: &FaultPlan,
    stop: &mut bool,
) -> Reply {
    let now = engine.now();
    match request {
        Request::Status => Reply::done(status(front_end, engine, faults)),
        Request::PowerCut { .. } if !engine.is_powered() => {
            Reply::failed("the power is off already; give it back with power-on")
        }
        Request::PowerCut { survive, off } => {
            let (orphans, loss) = engine.power_cut(survive, off);
            front_end.power_lost(orphans, now);
            if !off {
                front_end.power_restored(now);
            }
            Reply::done(loss)
        }
        Request::PowerOn if engine.is_powered() => Reply::failed("the power is on"),
        Request::PowerOn => {
            engine.power_on();
            front_end.power_restored(now);
            Reply::done(())
        }
        Request::Inject { fault } => match faults.inject(fault) {
            Ok(id) => Reply::done(serde_json::json!({ "id": id })),
            Err(error) => Reply::failed(error),
        },
        Request::Faults => Reply::done(faults.list()),
        Request::Clear { id } => match (faults.clear(id), id) {
            (0, Some(id)) => Reply::failed(format_args!("there is no fault {}; `faults` lists those in force", id.0)),
            (cleared, _) => Reply::done(serde_json::json!({ "cleared": cleared })),
        },
        Request::Zones { nsid, from, count } => zones(engine, nsid, from, count),
        Request::ZoneEvent { .. } if !engine.is_powered() => Reply::failed("the power is off"),
        Request::ZoneEvent { nsid, zone, event } => {
            let Some(zone_blocks) = zone_blocks(engine) else { return Reply::failed("the device has no zones") };
            if !engine.zone_event(NamespaceId(nsid), zone, event.event()) {
                return Reply::failed(format_args!(
                    "zone {zone} of namespace {nsid} is not there, or in a state in which this cannot happen"
                ));
            }
            front_end.zones_changed(NamespaceId(nsid), &[Lba(u64::from(zone) * zone_blocks)], now);
            Reply::done(())
        }
        Request::Stop => {
            *stop = true;
            Reply::done(())
        }
    }
}

fn zone_blocks<C>(engine: &Engine<C>) -> Option<u64> {
    engine.backend().identity().zoned.as_ref().map(|zoned| zoned.zone_blocks)
}

fn zones<C>(engine: &Engine<C>, nsid: u32, from: u32, count: u32) -> Reply {
    let identity = engine.backend().identity();
    let Some(shape) = &identity.zoned else { return Reply::failed("the device has no zones") };
    let zones = engine.backend().zones(NamespaceId(nsid));
    if zones.is_empty() {
        return Reply::failed(format_args!("there is no namespace {nsid}"));
    }
    let entries = zones.iter().zip(0..).skip(from as usize).take(count.min(MAX_ZONES) as usize);
    Reply::done(ZonePage {
        total: zones.len() as u32,
        zone_blocks: shape.zone_blocks,
        capacity_blocks: shape.zone_capacity_blocks,
        zones: entries
            .map(|(status, zone)| ZoneEntry {
                zone,
                state: state_name(status.state).to_owned(),
                written_blocks: status.written_blocks,
            })
            .collect(),
    })
}

fn status<F: FrontEnd>(front_end: &F, engine: &mut Engine<F::Context>, faults: &FaultPlan) -> Status {
    let (counts, recent) = (engine.counts(), engine.recent());
    let backend = engine.backend();
    let identity = backend.identity();
    let namespaces = identity.namespace_blocks.iter().zip(1..).map(|(blocks, nsid)| NamespaceStatus {
        nsid,
        bytes: blocks * u64::from(identity.lba_bytes),
        lba_bytes: identity.lba_bytes,
        zones: identity.zoned.as_ref().map_or(0, |zoned| (blocks / zoned.zone_blocks.max(1)) as u32),
    });
    let queues = backend.queues().zip(1..).filter(|((waiting, outstanding), _)| waiting + outstanding > 0).map(
        |((waiting, outstanding), queue)| QueueStatus {
            queue,
            outstanding: outstanding as u32,
            waiting: waiting as u32,
        },
    );
    let injected = faults.list();
    Status {
        model: identity.model.clone(),
        elapsed_ns: engine.now().0,
        powered: engine.is_powered(),
        namespaces: namespaces.collect(),
        clients: front_end.clients(),
        requests: counts.requests,
        reads: counts.reads,
        writes: counts.writes,
        read_bytes: counts.read_bytes,
        written_bytes: counts.written_bytes,
        errors: counts.errors,
        outstanding: backend.outstanding() as u64,
        queues: queues.collect(),
        latency: engine.latencies().summary(),
        recent,
        live: backend.live_state(),
        faults: injected.len() as u64,
        fault_hits: injected.iter().map(|fault| fault.hits).sum(),
        counters: backend.counters().into_iter().collect(),
    }
}
