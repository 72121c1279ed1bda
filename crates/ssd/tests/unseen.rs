//! A driver that lets a device go ahead with what nobody sees gets the same from it
//! as one that stops at every event.

use nvme::{Command, CommandId, Lba, LbaRange, NamespaceId, QueueId};
use proptest::prelude::*;
use ssd::profile::{BuildOptions, Profile, builtin_names};
use ssd::{Completion, Device, Submission};
use trace::RequestId;
use units::Nanos;

#[derive(Clone, Debug)]
struct Request {
    /// Time since the one before.
    after_ns: u64,
    kind: u8,
    /// Where, as a part of the device.
    at: u32,
    blocks: u32,
}

fn request() -> impl Strategy<Value = Request> {
    let after = prop_oneof![4 => Just(0), 4 => 0..20_000_u64, 1 => 0..5_000_000_u64];
    let place = prop_oneof![any::<u32>(), 0..5_000_u32];
    (after, 0..10_u8, place, 1..64_u32).prop_map(|(after_ns, kind, at, blocks)| Request { after_ns, kind, at, blocks })
}

fn submission(request: &Request, cid: u16, blocks: u64) -> Submission {
    let start = (u128::from(request.at) * u128::from(blocks - 64)) >> 32;
    let range = LbaRange { start: Lba(start as u64), count: request.blocks };
    let nsid = NamespaceId::FIRST;
    let command = match request.kind {
        0..5 => Command::Read { nsid, range, fua: false },
        5..8 => Command::write(nsid, range, request.kind == 7),
        8 => Command::Deallocate { nsid, ranges: [range].into() },
        _ => Command::Flush { nsid },
    };
    Submission { queue: QueueId(1), cid: CommandId(cid), command, data: None, request: RequestId(cid.into()) }
}

type Outcome = (Vec<(u16, nvme::Status, Nanos)>, Vec<(String, u64)>);

/// What came of the requests; with `ahead` the device goes on unseen where it can.
fn drive(device: &mut dyn Device, requests: &[Request], ahead: bool) -> Outcome {
    let blocks = device.identity().namespace_blocks[0];
    let mut done: Vec<Completion> = Vec::new();
    let until = |device: &mut dyn Device, end: Nanos, done: &mut Vec<Completion>| {
        loop {
            if ahead {
                device.advance_unseen(end);
            }
            match device.next_event().filter(|at| *at < end) {
                Some(at) => device.advance(at, done),
                None => return,
            }
        }
    };
    let mut now = Nanos::ZERO;
    for (cid, request) in (0..).zip(requests) {
        now += Nanos(request.after_ns);
        until(device, now, &mut done);
        device.advance(now, &mut done);
        device.submit(now, submission(request, cid, blocks));
    }
    until(device, now + Nanos::from_secs(5), &mut done);
    (done.iter().map(|done| (done.cid.0, done.status, done.at)).collect(), device.counters())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn going_ahead_changes_nothing(requests in prop::collection::vec(request(), 1..120)) {
        for name in builtin_names() {
            let device = || Profile::builtin(name).unwrap().build(&BuildOptions::default()).unwrap();
            if device().identity().zoned.is_some() {
                continue;
            }
            let (stepped, ahead) = (drive(&mut *device(), &requests, false), drive(&mut *device(), &requests, true));
            prop_assert_eq!(stepped.0.len(), requests.len(), "{}", name);
            prop_assert_eq!(&stepped, &ahead, "{}", name);
        }
    }
}
