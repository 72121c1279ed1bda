//! nexosim, on one thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nexosim::model::{Context, Model, schedulable};
use nexosim::ports::{EventSource, Output};
use nexosim::simulation::{EventId, Mailbox, SimInit, Simulation};
use nexosim::time::MonotonicTime;
use serde::{Deserialize, Serialize};

use crate::Delays;

/// The random delays, made when the model starts: a model must be serialisable.
#[derive(Serialize, Deserialize)]
struct Timers {
    pending: usize,
    #[serde(skip)]
    delays: Option<Delays>,
    #[serde(skip)]
    fired: Arc<AtomicU64>,
}

#[Model]
impl Timers {
    #[nexosim(init)]
    async fn init(&mut self, cx: &Context<Self>, _: &mut ()) {
        for _ in 0..self.pending {
            self.set(cx);
        }
    }

    fn set(&mut self, cx: &Context<Self>) {
        let delay_ns = self.delays.get_or_insert_with(Delays::new).next_ns();
        cx.schedule_event(Duration::from_nanos(delay_ns), schedulable!(Self::fire), ()).expect("a time ahead");
    }

    #[nexosim(schedulable)]
    async fn fire(&mut self, _: (), cx: &Context<Self>) {
        self.fired.fetch_add(1, Ordering::Relaxed);
        self.set(cx);
    }
}

/// The hold model: one model whose every event schedules another.
pub struct Hold {
    simulation: Simulation,
    fired: Arc<AtomicU64>,
}

impl Hold {
    pub fn new(pending: usize) -> Self {
        let fired = Arc::new(AtomicU64::new(0));
        let model = Timers { pending, delays: None, fired: fired.clone() };
        let simulation = SimInit::with_num_threads(1)
            .add_model(model, Mailbox::new(), "timers")
            .init(MonotonicTime::EPOCH)
            .expect("the model starts");
        Self { simulation, fired }
    }

    pub fn run(&mut self, events: u64) -> u64 {
        let before = self.fired.load(Ordering::Relaxed);
        while self.fired.load(Ordering::Relaxed) - before < events {
            self.simulation.step_until(Duration::from_micros(100)).expect("the simulation goes on");
        }
        self.fired.load(Ordering::Relaxed) - before
    }
}

#[derive(Default, Serialize, Deserialize)]
struct Member {
    next: Output<u64>,
}

#[Model]
impl Member {
    async fn take(&mut self, hops: u64) {
        // A token that has made all its hops stays here.
        if hops > 0 {
            self.next.send(hops - 1).await;
        }
    }
}

/// A ring of models, each with its output connected to the next one's input.
pub struct Ring {
    simulation: Simulation,
    first: EventId<u64>,
}

impl Ring {
    pub fn new(members: usize) -> Self {
        let mailboxes: Vec<Mailbox<Member>> = (0..members).map(|_| Mailbox::new()).collect();
        let mut init = SimInit::with_num_threads(1);
        let first = EventSource::new().connect(Member::take, &mailboxes[0]).register(&mut init);
        let mut ring: Vec<Member> = Vec::new();
        for member in 0..members {
            let mut model = Member::default();
            model.next.connect(Member::take, &mailboxes[(member + 1) % members]);
            ring.push(model);
        }
        for (member, (model, mailbox)) in ring.into_iter().zip(mailboxes).enumerate() {
            init = init.add_model(model, mailbox, &format!("member {member}"));
        }
        let simulation = init.init(MonotonicTime::EPOCH).expect("the ring starts");
        Self { simulation, first }
    }

    pub fn run(&mut self, events: u64) -> u64 {
        self.simulation.process_event(&self.first, events).expect("the token goes round");
        events
    }
}
