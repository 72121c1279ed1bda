//! Ordered writes in the controller: streams are opened and closed, writes wait for earlier epochs, and those that fail break
//! their streams (`docs/ordering.md`).

use nvme::{Status, Stream, StreamAction, WriteOrder};
use trace::{Step, Track};
use units::Nanos;

use super::Ssd;
use super::admission::{Gate, Progress, Request};
use super::command::Cmd;
use crate::config::OrderKind;

impl Ssd {
    fn keeps_order(&self) -> bool {
        self.config.order == OrderKind::Streams
    }

    /// A command that names streams is fetched: the order of this is what closes epochs by arrival.
    pub(super) fn note_order(&mut self, id: u32) {
        let keeps_order = self.keeps_order();
        let Cmd { order, status, .. } = &mut self.host[id];
        if let Some(request) = order
            && let Request::Write { order, places, blocks } = &mut **request
            && keeps_order
        {
            match self.admission.fetched(order, *blocks) {
                Ok(found) => *places = found,
                Err(refused) => *status = refused,
            }
        }
    }

    /// What a device says to a command that names streams, before it looks at anything else of it.
    pub(super) fn check_order(&self, id: u32) -> Status {
        let cmd = &self.host[id];
        match (self.config.order, cmd.order.as_deref()) {
            (OrderKind::None, Some(Request::Write { order, .. })) if order.is_barrier() => Status::INVALID_FIELD,
            (OrderKind::None, Some(Request::Manage { .. })) => Status::INVALID_OPCODE,
            _ => cmd.status,
        }
    }

    /// A processed write: into the buffer, if its turn to be accepted has come.
    pub(super) fn admit(&mut self, now: Nanos, id: u32) {
        let Some(Request::Write { order, places, .. }) = self.host[id].order.as_deref().filter(|_| self.keeps_order())
        else {
            return self.write(now, id);
        };
        let (order, places, limit) = (*order, *places, self.config.order_tables.epochs);
        let ftl = &self.ftl;
        match self.admission.gate(&order, &places, |stream| ftl.first_epoch(stream), limit) {
            Gate::Open => {
                let Cmd { since, request, .. } = self.host[id];
                if since > Nanos::ZERO {
                    self.host.record(since, now, Track::Buffer, Step::OrderWait, request, 0);
                }
                self.write(now, id);
            }
            Gate::Broken => self.refuse(now, id, Status::COMMAND_SEQUENCE_ERROR),
            #[cfg(test)]
            Gate::Wait(_) if self.promotes(id) => self.write(now, id),
            Gate::Wait(stream) => {
                let since = &mut self.host[id].since;
                *since = if *since == Nanos::ZERO { now } else { *since };
                self.admission.wait(stream, &places, id);
            }
        }
    }

    /// The defect of taking a write without order where the table of epochs is full.
    #[cfg(test)]
    fn promotes(&mut self, id: u32) -> bool {
        let full =
            self.admission.defect == Some(super::admission::Defect::PromotesWhenFull) && self.admission.is_full();
        if full && let Some(Request::Write { places, .. }) = self.host[id].order.as_deref_mut() {
            *places = [None, None];
        }
        full
    }

    fn admit_all(&mut self, now: Nanos, ids: Vec<u32>) {
        ids.into_iter().for_each(|id| self.admit(now, id));
    }

    /// An ordered write is accepted: what waited for its epoch to be complete may go on.
    pub(super) fn accepted_in_order(&mut self, now: Nanos, id: u32) {
        let Cmd { order, status, .. } = &self.host[id];
        let Some(Request::Write { order, places, blocks }) = order.as_deref() else { return };
        if !status.is_success() {
            let order = *order;
            return self.lose_order(now, &order);
        }
        let Progress { completed, woken } = self.admission.accepted(order, places, *blocks);
        for (stream, epoch) in completed {
            self.ftl.epoch_completed(stream, epoch);
        }
        if self.host[id].fua {
            // What must be mapped before it must not wait for company.
            self.buffer.end_interval();
        }
        let bytes = self.admission.memory_bytes() + self.ftl.order_bytes();
        self.counters.order_bytes_max = self.counters.order_bytes_max.max(bytes);
        self.admit_all(now, woken);
    }

    /// Units were mapped: what waited for the table of epochs may go on.
    pub(super) fn admit_mapped(&mut self, now: Nanos) {
        if self.admission.is_full() {
            let ids = self.admission.take_full();
            self.admit_all(now, ids);
        }
    }

    /// A command fails. If it is an ordered write, its epochs will never be complete: everything that waits in its streams fails
    /// with it, and so on.
    pub(super) fn refuse(&mut self, now: Nanos, id: u32, status: Status) {
        self.host[id].status = status;
        if let Some(Request::Write { order, .. }) = self.host[id].order.as_deref() {
            let order = *order;
            self.lose_order(now, &order);
        }
        self.complete(now, id);
    }

    /// A write of these streams failed.
    pub(super) fn lose_order(&mut self, now: Nanos, order: &WriteOrder) {
        let mut failed = self.admission.break_streams(order);
        while let Some(id) = failed.pop() {
            if let Some(Request::Write { order, .. }) = self.host[id].order.as_deref() {
                failed.append(&mut self.admission.break_streams(order));
            }
            self.host[id].status = Status::COMMAND_SEQUENCE_ERROR;
            self.complete(now, id);
        }
    }

    /// A processed Stream Management.
    pub(super) fn manage_streams(&mut self, now: Nanos, id: u32) {
        let Some(Request::Manage { stream, action }) = self.host[id].order.as_deref().filter(|_| self.keeps_order())
        else {
            return self.complete(now, id);
        };
        let (stream, limit) = (*stream, self.config.order_tables.streams);
        let answer = match *action {
            StreamAction::Open { first } => self.admission.open(stream, first, limit).map(|number| {
                self.ftl.stream_opened(number);
            }),
            StreamAction::Close => self.close_stream(now, stream),
        };
        self.host[id].status = answer.err().unwrap_or(Status::SUCCESS);
        self.complete(now, id);
        self.map_ready(now);
    }

    /// Closes a stream and aborts what waits in it.
    pub(super) fn close_stream(&mut self, now: Nanos, stream: Stream) -> Result<(), Status> {
        let (number, waiting) = self.admission.close(stream)?;
        self.ftl.stream_closed(number);
        waiting.into_iter().for_each(|waiting| self.refuse(now, waiting, Status::ABORT_REQUESTED));
        Ok(())
    }

    /// The places of a write, if it is an ordered one.
    pub(super) fn places(&self, id: u32) -> crash::order::Places {
        match self.host[id].order.as_deref() {
            Some(Request::Write { places, .. }) => *places,
            _ => [None, None],
        }
    }
}
