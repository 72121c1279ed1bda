//! A device around another.

use nvme::{ChangedZoneList, NamespaceId, WriteOrder};
use trace::Recorder;
use units::Nanos;

use crate::{
    Completion, ControllerEvent, Device, Identity, LiveState, PowerCut, Store, Submission, VolatileWrite, ZoneStatus,
};

/// What passes everything on to another device but what it says itself: each method does what [`Device`]'s of the same name does,
/// and by itself asks [`Wrapper::inner`]. Every wrapper is a [`Device`].
pub trait Wrapper {
    /// The device inside.
    fn inner(&self) -> &dyn Device;

    /// The same, to be changed.
    fn inner_mut(&mut self) -> &mut dyn Device;

    /// See [`Device::identity`].
    fn identity(&self) -> &Identity {
        self.inner().identity()
    }

    /// See [`Device::submit`].
    fn submit(&mut self, now: Nanos, submission: Submission) {
        self.inner_mut().submit(now, submission);
    }

    /// See [`Device::next_event`].
    fn next_event(&self) -> Option<Nanos> {
        self.inner().next_event()
    }

    /// See [`Device::advance`].
    fn advance(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        self.inner_mut().advance(now, completions);
    }

    /// See [`Device::advance_unseen`]. A wrapper that completes commands itself must refuse.
    fn advance_unseen(&mut self, limit: Nanos) -> Option<Nanos> {
        self.inner_mut().advance_unseen(limit)
    }

    /// See [`Device::zone_event`].
    fn zone_event(&mut self, now: Nanos, nsid: NamespaceId, zone: u32, event: ControllerEvent) -> bool {
        self.inner_mut().zone_event(now, nsid, zone, event)
    }

    /// See [`Device::close_streams`].
    fn close_streams(&mut self, now: Nanos) {
        self.inner_mut().close_streams(now);
    }

    /// See [`Device::live_state`].
    fn live_state(&self) -> LiveState {
        self.inner().live_state()
    }

    /// See [`Device::power_cut`].
    fn power_cut(&mut self, now: Nanos) -> PowerCut {
        self.inner_mut().power_cut(now)
    }
}

impl<W: Wrapper> Device for W {
    fn identity(&self) -> &Identity {
        Wrapper::identity(self)
    }

    fn submit(&mut self, now: Nanos, submission: Submission) {
        Wrapper::submit(self, now, submission);
    }

    fn next_event(&self) -> Option<Nanos> {
        Wrapper::next_event(self)
    }

    fn advance(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        Wrapper::advance(self, now, completions);
    }

    fn advance_unseen(&mut self, limit: Nanos) -> Option<Nanos> {
        Wrapper::advance_unseen(self, limit)
    }

    fn zones(&self, nsid: NamespaceId) -> Vec<ZoneStatus> {
        self.inner().zones(nsid)
    }

    fn zone_event(&mut self, now: Nanos, nsid: NamespaceId, zone: u32, event: ControllerEvent) -> bool {
        Wrapper::zone_event(self, now, nsid, zone, event)
    }

    fn has_zone_events(&self, nsid: NamespaceId) -> bool {
        self.inner().has_zone_events(nsid)
    }

    fn changed_zones(&mut self, nsid: NamespaceId, retain: bool) -> ChangedZoneList {
        self.inner_mut().changed_zones(nsid, retain)
    }

    fn break_streams(&mut self, now: Nanos, order: &WriteOrder) {
        self.inner_mut().break_streams(now, order);
    }

    fn close_streams(&mut self, now: Nanos) {
        Wrapper::close_streams(self, now);
    }

    fn live_state(&self) -> LiveState {
        Wrapper::live_state(self)
    }

    fn power_cut(&mut self, now: Nanos) -> PowerCut {
        Wrapper::power_cut(self, now)
    }

    fn survive(&mut self, write: &VolatileWrite) {
        self.inner_mut().survive(write);
    }

    fn set_recorder(&mut self, recorder: Recorder) {
        self.inner_mut().set_recorder(recorder);
    }

    fn store(&self) -> Option<&Store> {
        self.inner().store()
    }

    fn store_mut(&mut self) -> Option<&mut Store> {
        self.inner_mut().store_mut()
    }

    fn counters(&self) -> Vec<(String, u64)> {
        self.inner().counters()
    }
}
