//! Every state with every operation under every limit.

use super::*;

const OPERATIONS: [&str; 10] =
    ["write", "append", "fill", "open", "close", "finish", "reset", "offline", "extend", "flush"];

/// What a command leads to where resources are no matter: the next state, or
/// the code of the command specific status. Written from ZNS figures 11, 30 and
/// 40 and sections 3.4.3.1.1 to 3.4.3.1.6. `extend` is Set Zone Descriptor
/// Extension, `flush` Flush Explicit ZRWA Range on a zone without a ZRWA.
const EXPECTED: &str = "
           write append fill open close finish reset offline extend flush
    Empty  ZSIO  ZSIO   ZSF  ZSEO BF    ZSF    ZSE   BF      ZSC    B6
    ZSIO   ZSIO  ZSIO   ZSF  ZSEO ZSC   ZSF    ZSE   BF      BF     B6
    ZSEO   ZSEO  ZSEO   ZSF  ZSEO ZSC   ZSF    ZSE   BF      BF     B6
    ZSC    ZSIO  ZSIO   ZSF  ZSEO ZSC   ZSF    ZSE   BF      BF     B6
    ZSF    B9    B9     B9   BF   BF    ZSF    ZSE   BF      BF     B6
    ZSRO   BA    BA     BA   BF   BF    BF     BF    ZSO     BF     B6
    ZSO    BB    BB     BB   BF   BF    BF     BF    ZSO     BF     B6
";

/// What else is in use when the command comes.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Others {
    /// No limit is near.
    None,
    /// MOR is reached, with implicitly opened zones among the others.
    OpenImplicitly,
    /// MOR is reached by explicitly opened zones.
    OpenExplicitly,
    /// MAR is reached by closed zones; MOR is not.
    Active,
    /// MAR is reached and equal to MOR, all opened implicitly.
    ActiveAndOpen,
}

fn expected(state: ZoneState, operation: &str, others: Others) -> Result<ZoneState, Status> {
    let row = EXPECTED.lines().skip(2).nth(STATES.iter().position(|other| *other == state).unwrap()).unwrap();
    let column = OPERATIONS.iter().position(|other| *other == operation).unwrap();
    let opens = ["write", "append", "fill", "open"].contains(&operation);
    let (empty, closed) = (state == ZoneState::Empty, state == ZoneState::Closed);
    let short = match others {
        Others::OpenExplicitly if opens && (empty || closed) => Some(0xbe),
        Others::Active | Others::ActiveAndOpen if empty && (opens || operation == "extend") => Some(0xbd),
        _ => None,
    };
    let cell = row.split_whitespace().nth(column + 1).unwrap();
    let refusal = short.or_else(|| u8::from_str_radix(cell, 16).ok());
    match (refusal, cell) {
        (Some(code), _) => Err(Status { code_type: 1, code }),
        (None, "ZSE") => Ok(ZoneState::Empty),
        (None, "ZSIO") => Ok(ZoneState::ImplicitlyOpened),
        (None, "ZSEO") => Ok(ZoneState::ExplicitlyOpened),
        (None, "ZSC") => Ok(ZoneState::Closed),
        (None, "ZSF") => Ok(ZoneState::Full),
        (None, "ZSO") => Ok(ZoneState::Offline),
        (None, other) => panic!("{other}"),
    }
}

/// Zone 3 in `state`, and other zones that use the limits up.
fn prepare(state: ZoneState, others: Others) -> Zones {
    let (max_open, max_active) = match others {
        Others::None => (None, None),
        Others::OpenImplicitly | Others::OpenExplicitly => (Some(3), Some(6)),
        Others::Active => (Some(3), Some(4)),
        Others::ActiveAndOpen => (Some(3), Some(3)),
    };
    let mut zones = Zones::new(&ZonedIdentity { max_open, max_active, ..shape() }, LBA_BYTES, 9);
    bring(&mut zones, 3, state);
    for index in [0, 1, 2, 4, 5, 6, 7] {
        let full = match others {
            Others::None => true,
            Others::OpenImplicitly | Others::OpenExplicitly => zones.open_zones() == 3,
            Others::Active | Others::ActiveAndOpen => Some(zones.active_zones()) == max_active,
        };
        if full {
            break;
        }
        bring(
            &mut zones,
            index,
            match others {
                Others::OpenExplicitly => ZoneState::ExplicitlyOpened,
                Others::Active => ZoneState::Closed,
                _ => ZoneState::ImplicitlyOpened,
            },
        );
    }
    assert_eq!(zones.zone(3).state, state);
    zones
}

fn operate(zones: &mut Zones, operation: &str) -> Result<(), Status> {
    let start = 3 * ZONE;
    let pointer = zones.zone(3).write_pointer_blocks;
    let action = match operation {
        "write" => return write(zones, start + pointer, 1).map(drop),
        "append" => return zones.append(Lba(start), 1).map(|(lba, _)| assert_eq!(lba, Lba(start + pointer))),
        "fill" => return write(zones, start + pointer, (CAPACITY - pointer).max(1) as u32).map(drop),
        "open" => ZoneSendAction::Open,
        "close" => ZoneSendAction::Close,
        "finish" => ZoneSendAction::Finish,
        "reset" => ZoneSendAction::Reset,
        "offline" => ZoneSendAction::Offline,
        "extend" => ZoneSendAction::SetDescriptorExtension,
        "flush" => ZoneSendAction::FlushZrwa,
        other => panic!("{other}"),
    };
    send(zones, start, action).map(drop)
}

#[test]
fn every_state_operation_and_limit() {
    for others in [Others::None, Others::OpenImplicitly, Others::OpenExplicitly, Others::Active, Others::ActiveAndOpen]
    {
        for state in STATES {
            for operation in OPERATIONS {
                let case = format!("{operation} in {state:?} with {others:?}");
                let mut zones = prepare(state, others);
                let (before, open, active) = (seen(&zones), zones.open_zones(), zones.active_zones());
                let result = operate(&mut zones, operation);
                match expected(state, operation, others) {
                    Ok(next) => {
                        assert_eq!(result, Ok(()), "{case}");
                        assert_eq!(zones.zone(3).state, next, "{case}");
                        if next == state && operation != "write" && operation != "append" {
                            assert!(seen(&zones) == before, "{case} changes nothing");
                        }
                    }
                    Err(status) => {
                        assert_eq!(result, Err(status), "{case}");
                        assert!(seen(&zones) == before, "{case} changes nothing");
                        assert_eq!((zones.open_zones(), zones.active_zones()), (open, active), "{case}");
                    }
                }
                let count =
                    |states: &[ZoneState]| (0..9).filter(|zone| states.contains(&zones.zone(*zone).state)).count();
                let opened = [ZoneState::ImplicitlyOpened, ZoneState::ExplicitlyOpened];
                assert_eq!(zones.open_zones() as usize, count(&opened), "{case}");
                assert_eq!(zones.active_zones() as usize, count(&opened) + count(&[ZoneState::Closed]), "{case}");
                assert!(others == Others::None || zones.open_zones() <= 3, "{case}");
            }
        }
    }
}

/// At MOR the zone that was opened longest ago makes room, never one that was
/// opened by command.
#[test]
fn the_oldest_implicitly_opened_zone_makes_room() {
    let mut zones = Zones::new(&ZonedIdentity { max_open: Some(3), ..shape() }, LBA_BYTES, 8);
    send(&mut zones, 0, ZoneSendAction::Open).unwrap();
    for zone in [2, 1] {
        write(&mut zones, zone * ZONE, 1).unwrap();
    }
    // Writing again does not make it younger.
    write(&mut zones, 2 * ZONE + 1, 1).unwrap();
    assert_eq!(write(&mut zones, 3 * ZONE, 1).unwrap().closed, Some(2));
    let changes = send(&mut zones, 4 * ZONE, ZoneSendAction::Open).unwrap();
    assert_eq!(changes.iter().map(|change| change.zone).collect::<Vec<_>>(), [1, 4]);
    let (_, written) = zones.append(Lba(5 * ZONE), 1).unwrap();
    assert_eq!((written.closed, written.opened), (Some(3), true));
    // Now only zone 5 is open implicitly; after it becomes explicit nobody is.
    send(&mut zones, 5 * ZONE, ZoneSendAction::Open).unwrap();
    assert_eq!(write(&mut zones, 6 * ZONE, 1), Err(Status::TOO_MANY_OPEN_ZONES));
    assert_eq!((zones.open_zones(), zones.active_zones()), (3, 6));
}

/// Select All, for each action, over one zone in each state (3.4.3.1).
#[test]
fn select_all() {
    for (action, states) in [
        (ZoneSendAction::Close, "ZSE ZSC ZSC ZSC ZSF ZSRO ZSO"),
        (ZoneSendAction::Finish, "ZSE ZSF ZSF ZSF ZSF ZSRO ZSO"),
        (ZoneSendAction::Open, "ZSE ZSIO ZSEO ZSEO ZSF ZSRO ZSO"),
        (ZoneSendAction::Reset, "ZSE ZSE ZSE ZSE ZSE ZSRO ZSO"),
        (ZoneSendAction::Offline, "ZSE ZSIO ZSEO ZSC ZSF ZSO ZSO"),
    ] {
        let mut zones = Zones::new(&shape(), LBA_BYTES, 7);
        for (index, state) in STATES.into_iter().enumerate() {
            bring(&mut zones, index as u32, state);
        }
        let changes = send_all(&mut zones, action).unwrap();
        for (index, name) in states.split_whitespace().enumerate() {
            let state = zones.zone(index as u32).state;
            let names = ["ZSE", "ZSIO", "ZSEO", "ZSC", "ZSF", "ZSRO", "ZSO"];
            assert_eq!(
                names[STATES.iter().position(|other| *other == state).unwrap()],
                name,
                "{action:?} zone {index}"
            );
            let told = changes.iter().any(|change| change.zone == index as u32);
            assert_eq!(told, state != STATES[index], "{action:?} zone {index}");
        }
    }
    let mut zones = Zones::new(&shape(), LBA_BYTES, 7);
    for action in [ZoneSendAction::SetDescriptorExtension, ZoneSendAction::FlushZrwa] {
        assert_eq!(send_all(&mut zones, action), Err(Status::INVALID_FIELD));
    }
}

/// Open All opens every closed zone or none; implicitly opened zones make room.
#[test]
fn open_all_at_the_limit() {
    let mut zones = Zones::new(&ZonedIdentity { max_open: Some(3), ..shape() }, LBA_BYTES, 8);
    bring(&mut zones, 0, ZoneState::Closed);
    bring(&mut zones, 1, ZoneState::ImplicitlyOpened);
    bring(&mut zones, 2, ZoneState::Closed);
    bring(&mut zones, 3, ZoneState::ImplicitlyOpened);
    let changes = send_all(&mut zones, ZoneSendAction::Open).unwrap();
    assert_eq!(changes.iter().map(|change| change.zone).collect::<Vec<_>>(), [1, 0, 2]);
    assert_eq!(zones.zone(1).state, ZoneState::Closed);
    assert_eq!(zones.open_zones(), 3);
    bring(&mut zones, 4, ZoneState::Closed);
    let before = seen(&zones);
    assert_eq!(send_all(&mut zones, ZoneSendAction::Open), Err(Status::TOO_MANY_OPEN_ZONES));
    assert!(seen(&zones) == before);
}
