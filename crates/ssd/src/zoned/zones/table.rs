//! The zone state machine as a table, to be held against the specification.
//!
//! Rows are the states of ZNS 2.1.1.3, columns what a host can ask for. Each
//! cell is what sections 2.1.1.2.1.1 (writes), 2.1.1.3.1 to 2.1.1.3.7
//! (transitions) and 3.4.3.1.1 to 3.4.3.1.6 (Zone Send Actions) say. Whether
//! resources allow the transition is not in the table: see `resources`.

use nvme::{Status, ZoneSendAction, ZoneState};

use ZoneState::{Closed, Empty, ExplicitlyOpened, Full, ImplicitlyOpened, Offline, ReadOnly};

/// What a host asks of one zone: a column of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Operation {
    /// A write operation of any kind: Write, Write Zeroes, Zone Append.
    Write,
    /// Open Zone.
    Open,
    /// Close Zone.
    Close,
    /// Finish Zone.
    Finish,
    /// Reset Zone.
    Reset,
    /// Offline Zone.
    Offline,
    /// Set Zone Descriptor Extension.
    SetExtension,
    /// Flush Explicit ZRWA Range.
    FlushZrwa,
}

impl From<ZoneSendAction> for Operation {
    fn from(action: ZoneSendAction) -> Self {
        match action {
            ZoneSendAction::Open => Self::Open,
            ZoneSendAction::Close => Self::Close,
            ZoneSendAction::Finish => Self::Finish,
            ZoneSendAction::Reset => Self::Reset,
            ZoneSendAction::Offline => Self::Offline,
            ZoneSendAction::SetDescriptorExtension => Self::SetExtension,
            ZoneSendAction::FlushZrwa => Self::FlushZrwa,
        }
    }
}

/// A cell of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// The zone goes to this state. A write or commit that reaches the zone's
    /// capacity takes it on to Full (2.1.1.3.2 b, 2.1.1.3.3 b).
    To(ZoneState),
    /// The command succeeds and the state stays.
    Stay,
    /// The command is aborted.
    Refuse(Status),
}

const ZSIO: Outcome = Outcome::To(ImplicitlyOpened);
const ZSEO: Outcome = Outcome::To(ExplicitlyOpened);
const ZSC: Outcome = Outcome::To(Closed);
const ZSF: Outcome = Outcome::To(Full);
const ZSE: Outcome = Outcome::To(Empty);
const ZSO: Outcome = Outcome::To(Offline);
const SAME: Outcome = Outcome::Stay;
const FULL: Outcome = Outcome::Refuse(Status::ZONE_IS_FULL);
const RO: Outcome = Outcome::Refuse(Status::ZONE_IS_READ_ONLY);
const OFF: Outcome = Outcome::Refuse(Status::ZONE_IS_OFFLINE);
const BAD: Outcome = Outcome::Refuse(Status::INVALID_ZONE_STATE_TRANSITION);

/// The table. The rows follow section 2.1.1.3. The column of Flush Explicit ZRWA Range (from TP 4076, "Zoned
/// Random Write Area") holds for a zone that has a ZRWA: a commit is a write as
/// far as the state goes. Without a ZRWA the action is refused by `zrwa`.
#[rustfmt::skip]
const TABLE: [[Outcome; 8]; 7] = [
    //                     Write Open  Close Finish Reset Offline SetExtension FlushZrwa
    /* Empty            */ [ZSIO, ZSEO, BAD,  ZSF,  SAME, BAD,    ZSC,         BAD ],
    /* ImplicitlyOpened */ [SAME, ZSEO, ZSC,  ZSF,  ZSE,  BAD,    BAD,         SAME],
    /* ExplicitlyOpened */ [SAME, SAME, ZSC,  ZSF,  ZSE,  BAD,    BAD,         SAME],
    /* Closed           */ [ZSIO, ZSEO, SAME, ZSF,  ZSE,  BAD,    BAD,         ZSIO],
    /* Full             */ [FULL, BAD,  BAD,  SAME, ZSE,  BAD,    BAD,         BAD ],
    /* ReadOnly         */ [RO,   BAD,  BAD,  BAD,  BAD,  ZSO,    BAD,         BAD ],
    /* Offline          */ [OFF,  BAD,  BAD,  BAD,  BAD,  SAME,   BAD,         BAD ],
];

/// The cell for a zone in `state` and `operation`.
pub(crate) fn rule(state: ZoneState, operation: Operation) -> Outcome {
    let row = match state {
        Empty => 0,
        ImplicitlyOpened => 1,
        ExplicitlyOpened => 2,
        Closed => 3,
        Full => 4,
        ReadOnly => 5,
        Offline => 6,
    };
    TABLE[row][operation as usize]
}

/// The states whose zones an action with Select All takes in (3.4.3.1); `None`
/// where Select All is refused.
pub(crate) fn selected_by_all(action: ZoneSendAction) -> Option<&'static [ZoneState]> {
    Some(match action {
        ZoneSendAction::Close => &[ImplicitlyOpened, ExplicitlyOpened],
        ZoneSendAction::Finish => &[ImplicitlyOpened, ExplicitlyOpened, Closed],
        ZoneSendAction::Open => &[Closed],
        ZoneSendAction::Reset => &[ImplicitlyOpened, ExplicitlyOpened, Closed, Full],
        ZoneSendAction::Offline => &[ReadOnly],
        ZoneSendAction::SetDescriptorExtension | ZoneSendAction::FlushZrwa => return None,
    })
}

/// Whether a zone in `state` holds an open resource (ZNS figure 4).
pub(crate) fn is_open(state: ZoneState) -> bool {
    matches!(state, ImplicitlyOpened | ExplicitlyOpened)
}

/// Whether a zone in `state` holds an active resource (ZNS figure 4).
pub(crate) fn is_active(state: ZoneState) -> bool {
    matches!(state, ImplicitlyOpened | ExplicitlyOpened | Closed)
}

/// Whether the write pointer of a zone in `state` is valid (ZNS figure 4).
pub(crate) fn has_write_pointer(state: ZoneState) -> bool {
    state == Empty || is_active(state)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: [ZoneState; 7] = [Empty, ImplicitlyOpened, ExplicitlyOpened, Closed, Full, ReadOnly, Offline];

    /// The arrows of ZNS figure 7, every one and no other.
    #[test]
    fn the_arrows_are_the_specifications() {
        use Operation as O;
        let arrows = [
            (Empty, O::Write, ImplicitlyOpened),
            (Empty, O::Open, ExplicitlyOpened),
            (Empty, O::SetExtension, Closed),
            (Empty, O::Finish, Full),
            (ImplicitlyOpened, O::Reset, Empty),
            (ImplicitlyOpened, O::Open, ExplicitlyOpened),
            (ImplicitlyOpened, O::Close, Closed),
            (ImplicitlyOpened, O::Finish, Full),
            (ExplicitlyOpened, O::Reset, Empty),
            (ExplicitlyOpened, O::Close, Closed),
            (ExplicitlyOpened, O::Finish, Full),
            (Closed, O::Reset, Empty),
            (Closed, O::Write, ImplicitlyOpened),
            (Closed, O::FlushZrwa, ImplicitlyOpened),
            (Closed, O::Open, ExplicitlyOpened),
            (Closed, O::Finish, Full),
            (Full, O::Reset, Empty),
            (ReadOnly, O::Offline, Offline),
        ];
        let operations = [O::Write, O::Open, O::Close, O::Finish, O::Reset, O::Offline, O::SetExtension, O::FlushZrwa];
        for state in STATES {
            for operation in operations {
                let arrow = arrows.iter().find(|arrow| (arrow.0, arrow.1) == (state, operation));
                match rule(state, operation) {
                    Outcome::To(next) => {
                        assert_eq!(arrow.map(|arrow| arrow.2), Some(next), "{state:?} {operation:?}");
                    }
                    Outcome::Stay | Outcome::Refuse(_) => assert_eq!(arrow, None, "{state:?} {operation:?}"),
                }
            }
        }
    }

    /// Select All takes in exactly the states where the action changes
    /// something, but for Open and Finish of empty zones and Open of implicitly
    /// opened ones, which it leaves alone.
    #[test]
    fn select_all_agrees_with_the_table() {
        for action in [
            ZoneSendAction::Close,
            ZoneSendAction::Finish,
            ZoneSendAction::Open,
            ZoneSendAction::Reset,
            ZoneSendAction::Offline,
        ] {
            for state in STATES {
                let changes = matches!(rule(state, action.into()), Outcome::To(_));
                let left_alone = matches!(
                    (action, state),
                    (ZoneSendAction::Open | ZoneSendAction::Finish, Empty) | (ZoneSendAction::Open, ImplicitlyOpened)
                );
                let selected = selected_by_all(action).unwrap().contains(&state);
                assert_eq!(selected, changes && !left_alone, "{action:?} {state:?}");
            }
        }
    }
}
