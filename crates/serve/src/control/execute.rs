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
        memory_bytes: backend.memory_bytes(),
        memory_limit_bytes: backend.memory_limit_bytes(),
        faults: injected.len() as u64,
        fault_hits: injected.iter().map(|fault| fault.hits).sum(),
        counters: backend.counters().into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use nvme::{Command, LbaRange, Status as NvmeStatus};
    use ssd::faults::{Effect, Fault, FaultyDevice};
    use units::Nanos;

    use super::super::message::{ZoneEventKind, ZonePage};
    use super::*;
    use crate::backend::Request as DeviceRequest;
    use crate::calibration::Calibration;
    use crate::front_end::{Clients, Outcome};
    use crate::poller::{Poller, Ready};
    use crate::power::{PowerLoss, Survival};

    type Answer = (u32, Result<Box<[u8]>, NvmeStatus>);

    /// Notes what it is told.
    #[derive(Default)]
    struct Noting {
        lost: Vec<u32>,
        restored: u32,
        changed: Vec<(NamespaceId, Lba)>,
        answers: Vec<Answer>,
    }

    impl FrontEnd for Noting {
        type Context = u32;
        fn attach(&mut self, _: &Poller) -> std::io::Result<()> {
            Ok(())
        }
        fn ready(&mut self, _: &Ready, _: &Poller, _: Nanos) -> Result<(), crate::ServeError> {
            Ok(())
        }
        fn take(&mut self, _: &mut Engine<u32>) -> Result<bool, crate::ServeError> {
            Ok(false)
        }
        fn answer(&mut self, context: u32, outcome: Outcome, _: Nanos) {
            self.answers.push((context, outcome.result));
        }
        fn send(&mut self, _: &Poller) -> Result<(), crate::ServeError> {
            Ok(())
        }
        fn power_lost(&mut self, orphans: Vec<u32>, _: Nanos) {
            self.lost.extend(orphans);
        }
        fn power_restored(&mut self, _: Nanos) {
            self.restored += 1;
        }
        fn zones_changed(&mut self, nsid: NamespaceId, zones: &[Lba], _: Nanos) {
            self.changed.extend(zones.iter().map(|zone| (nsid, *zone)));
        }
        fn drain(&mut self, _: &Poller) -> bool {
            true
        }
        fn clients(&self) -> Clients {
            Clients::default()
        }
    }

    struct Rig {
        front_end: Noting,
        engine: Engine<u32>,
        faults: FaultPlan,
        zone_blocks: u64,
    }

    impl Rig {
        fn new() -> Self {
            let profile = ssd::profile::Profile::builtin("wd-zn540").unwrap();
            let device = profile.build(&ssd::profile::BuildOptions::default()).unwrap();
            let zone_blocks = device.identity().zoned.as_ref().unwrap().zone_blocks;
            let faults = FaultPlan::default();
            let device = FaultyDevice::new(device, faults.clone());
            let engine = Engine::new(Box::new(device), Calibration::default());
            Self { front_end: Noting::default(), engine, faults, zone_blocks }
        }

        fn ask(&mut self, request: Request) -> Result<serde_json::Value, String> {
            let mut stop = false;
            match execute(request, &mut self.front_end, &mut self.engine, &self.faults, &mut stop) {
                Reply::Done { result } => Ok(result),
                Reply::Failed { error } => Err(error),
            }
        }

        fn event(&mut self, zone: u32, event: ZoneEventKind) -> Result<serde_json::Value, String> {
            self.ask(Request::ZoneEvent { nsid: 1, zone, event })
        }

        fn submit(&mut self, context: u32, command: Command) {
            let request = DeviceRequest::Command { command, data: None };
            self.engine.submit(self.engine.now(), 0, NamespaceId::FIRST, request, context);
        }

        fn deliver(&mut self) {
            let front_end = &mut self.front_end;
            self.engine.answers(|context, outcome, now| front_end.answer(context, outcome, now));
        }
    }

    #[test]
    fn zones_change_and_hosts_are_told() {
        let mut rig = Rig::new();
        rig.event(2, ZoneEventKind::ReadOnly).unwrap();
        rig.event(3, ZoneEventKind::Offline).unwrap();
        assert!(rig.event(3, ZoneEventKind::ReadOnly).unwrap_err().contains("zone 3"), "offline is for ever");
        assert!(rig.event(u32::MAX, ZoneEventKind::Offline).is_err());
        let first = |zone| (NamespaceId::FIRST, Lba(zone * rig.zone_blocks));
        assert_eq!(rig.front_end.changed, [first(2), first(3)]);

        let zones = |rig: &mut Rig, from, count| -> ZonePage {
            serde_json::from_value(rig.ask(Request::Zones { nsid: 1, from, count }).unwrap()).unwrap()
        };
        let page = zones(&mut rig, 1, 3);
        assert_eq!(
            page.zones.iter().map(|zone| (zone.zone, zone.state.as_str())).collect::<Vec<_>>(),
            [(1, "empty"), (2, "read-only"), (3, "offline")]
        );
        assert_eq!(zones(&mut rig, page.total - 1, u32::MAX).zones.len(), 1);
        assert_eq!(zones(&mut rig, page.total, 5).zones, []);
        assert!(rig.ask(Request::Zones { nsid: 2, from: 0, count: 1 }).unwrap_err().contains("namespace 2"));

        let status: Status = serde_json::from_value(rig.ask(Request::Status).unwrap()).unwrap();
        let summary = status.live.zones[0];
        assert_eq!((summary.read_only, summary.offline, summary.empty), (1, 1, page.total - 2));
        assert_eq!(status.namespaces[0].zones, page.total);
    }

    #[test]
    fn without_power_requests_fail_and_zones_stay() {
        let mut rig = Rig::new();
        rig.faults.inject(Fault::new(Effect::Timeout)).unwrap();
        let read =
            || Command::Read { nsid: NamespaceId::FIRST, range: LbaRange { start: Lba(0), count: 1 }, fua: false };
        rig.submit(7, read());
        rig.submit(8, read());
        let cut = |off| Request::PowerCut { survive: Survival::None, off };
        let loss: PowerLoss = serde_json::from_value(rig.ask(cut(true)).unwrap()).unwrap();
        assert_eq!((loss.orphans, rig.front_end.restored), (2, 0));
        assert_eq!(rig.front_end.lost, [7, 8]);
        rig.submit(9, read());
        rig.deliver();
        assert_eq!(rig.front_end.answers, [(9, Err(NvmeStatus::NAMESPACE_NOT_READY))]);
        assert_eq!(rig.engine.next_event(Nanos::ZERO), None);
        assert!(rig.event(2, ZoneEventKind::Offline).unwrap_err().contains("power is off"));
        rig.ask(Request::PowerOn).unwrap();
        assert_eq!(rig.front_end.restored, 1);
        rig.ask(cut(false)).unwrap();
        assert_eq!(rig.front_end.restored, 2, "the power is back at once");
    }
}
