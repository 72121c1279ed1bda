//! The loop of the tracer.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::thread;

use crash::files::{Action, Call, Data, Moment};

use super::acknowledge::Lines;
use super::aio::{Over, Requests};
use super::decode::{CallPlan, Exclusive, Places};
use super::filter;
use super::process::Process;
use super::ptrace::{self, Go, Stop, Tid};
use super::spawn;
use super::syscalls::by_number;
use super::{ACKNOWLEDGE, CALLS_MAX, FollowError, Followed, Options, Program};

/// [`super::follow`].
pub(super) fn follow(
    mut command: Command,
    options: &Options,
    position: impl FnMut() -> u64 + Send,
) -> Result<Followed, FollowError> {
    let places = places(options)?;
    if let Some(path) = &places.acknowledge {
        command.env(ACKNOWLEDGE, path);
    }
    let program = command.get_program().to_string_lossy().into_owned();
    let starting = spawn::prepare(&mut command, filter::program()).map_err(trace("start the command"))?;
    let tracer = Tracer {
        places,
        position,
        threads: BTreeMap::new(),
        numbers: 0,
        order: 0,
        waiting: VecDeque::new(),
        requests: Requests::default(),
        room_bytes: options.data_bytes_max,
        whole_bytes: options.whole_bytes_max,
        lines: Lines::default(),
        followed: Followed {
            calls: Vec::new(),
            acknowledgements: Vec::new(),
            unfollowed: Vec::new(),
            programs: Vec::new(),
            status: ExitStatus::default(),
        },
        program: None,
        wait_for_all: options.wait_for_all,
    };
    thread::scope(|scope| {
        // The command goes with the thread: its ends of the pipes are closed when it was not started.
        let starter = scope.spawn(move || command.spawn());
        // A thread of its own: a tracer waits for what it traces, and for no other child of the caller's.
        let tracer = scope.spawn(move || tracer.run(starting));
        let (started, traced) = (starter.join(), tracer.join());
        let panicked =
            || FollowError::Trace { what: "follow the command", source: io::Error::other("a thread panicked") };
        let started: io::Result<Child> = started.map_err(|_| panicked())?;
        let traced = traced.map_err(|_| panicked())?;
        started.map_err(|source| FollowError::Start { program, source })?;
        traced
    })
}

fn trace(what: &'static str) -> impl Fn(io::Error) -> FollowError {
    move |source| FollowError::Trace { what, source }
}

/// The paths without symbolic links, as the kernel will name them.
fn places(options: &Options) -> Result<Places, FollowError> {
    let fail = |path: &Path, source| FollowError::Folder { path: path.to_owned(), source };
    let folder = options.folder.canonicalize().map_err(|error| fail(&options.folder, error))?;
    let acknowledge = options.acknowledge.as_deref().map(|path| path.canonicalize().map_err(|error| fail(path, error)));
    let acknowledge = acknowledge.transpose()?;
    match &acknowledge {
        Some(path) if path.starts_with(&folder) => Err(FollowError::AcknowledgeBelow(path.clone())),
        _ => Ok(Places { folder, acknowledge }),
    }
}

/// So many zeroes at least take no memory.
const ZEROES_BYTES_MIN: u64 = 512;

/// A thread that is traced.
struct Thread {
    /// Counted as they were seen.
    number: u32,
    /// The call that it is in.
    call: Option<Begun>,
    /// Which program it runs has been listed.
    is_named: bool,
}

/// A call that is not over.
struct Begun {
    name: &'static str,
    entered: Moment,
    plan: CallPlan,
}

struct Tracer<P> {
    places: Places,
    position: P,
    threads: BTreeMap<Tid, Thread>,
    numbers: u32,
    order: u64,
    /// Threads that stand before a call, because another's must be over first.
    waiting: VecDeque<Tid>,
    requests: Requests,
    /// How much more written data may be kept.
    room_bytes: u64,
    /// How much more of it as it is, and not by digests.
    whole_bytes: u64,
    lines: Lines,
    followed: Followed,
    /// The command's process, once it runs its program.
    program: Option<Tid>,
    wait_for_all: bool,
}

impl<P: FnMut() -> u64> Tracer<P> {
    fn run(mut self, starting: spawn::Starting) -> Result<Followed, FollowError> {
        let Some(first) = starting.seize().map_err(trace("follow the command"))? else { return Ok(self.followed) };
        self.thread(first);
        let result = self.follow(first);
        if result.is_err() {
            for tid in self.threads.keys() {
                ptrace::kill(*tid);
            }
        }
        self.list_rest(first);
        result.map(|()| self.followed)
    }

    fn follow(&mut self, first: Tid) -> Result<(), FollowError> {
        loop {
            // Whoever starts the command waits for a process that cannot run its program; it must be left to him.
            if self.program.is_none() && ptrace::will_end(first).map_err(trace("wait for the command"))? {
                return Ok(());
            }
            let Some((tid, stop)) = ptrace::wait().map_err(trace("wait for the command"))? else { return Ok(()) };
            self.stopped(tid, stop)?;
            if self.followed.calls.len() > CALLS_MAX {
                return Err(FollowError::TooMany(CALLS_MAX));
            }
        }
    }

    fn stopped(&mut self, tid: Tid, stop: Stop) -> Result<(), FollowError> {
        match stop {
            Stop::Ended(status) => self.ended(tid, status),
            Stop::Filter => {
                self.thread(tid);
                self.entry(tid)
            }
            Stop::CallOver => {
                let result = ptrace::registers(tid).map_err(trace("read registers"))?;
                self.over(tid, result.map(|registers| registers.rax as i64));
                go(tid, Go::On, 0)?;
                self.admit()
            }
            Stop::Exec(former) => {
                self.program.get_or_insert(tid);
                // The thread that called exec has the number of the first one now, which is gone.
                if former != tid
                    && let Some(thread) = self.threads.remove(&former)
                {
                    self.threads.insert(tid, thread);
                    self.waiting.retain(|waiting| *waiting != former && *waiting != tid);
                }
                self.thread(tid).is_named = false;
                go(tid, Go::On, 0)?;
                self.admit()
            }
            Stop::Made(made) => {
                self.thread(made);
                go(tid, Go::On, 0)
            }
            Stop::Group => go(tid, Go::Listen, 0),
            Stop::Signal(signal) => go(tid, Go::On, signal),
            Stop::Other => {
                self.thread(tid);
                go(tid, Go::On, 0)
            }
        }
    }

    /// The thread, which may be a new one.
    fn thread(&mut self, tid: Tid) -> &mut Thread {
        self.threads.entry(tid).or_insert_with(|| {
            self.numbers += 1;
            Thread { number: self.numbers - 1, call: None, is_named: false }
        })
    }

    fn moment(&mut self) -> Moment {
        self.order += 1;
        Moment { order: self.order, position: (self.position)() }
    }

    /// A thread stands before a call.
    fn entry(&mut self, tid: Tid) -> Result<(), FollowError> {
        if ptrace::message(tid).is_ok_and(|message| message == u64::from(filter::STOP_FOREIGN)) {
            let at = self.moment();
            let begun =
                Begun { name: "call", entered: at, plan: CallPlan::Unfollowed("system calls of 32-bit programs") };
            self.finish(tid, begun, Some(0));
            return go(tid, Go::On, 0);
        }
        let Some(registers) = ptrace::registers(tid).map_err(trace("read registers"))? else { return Ok(()) };
        let Some(syscall) = by_number(registers.orig_rax) else { return go(tid, Go::On, 0) };
        let Some(plan) = self.places.plan(Process(tid), syscall.name, &registers, self.room_bytes) else {
            return go(tid, Go::On, 0);
        };
        if let Some(wanted) = plan.exclusive()
            && self.is_taken(wanted)
        {
            self.waiting.push_back(tid);
            return Ok(());
        }
        let entered = self.moment();
        self.name(tid, entered);
        self.thread(tid).call = Some(Begun { name: syscall.name, entered, plan });
        go(tid, Go::ToCallEnd, 0)
    }

    /// Lists which program a thread runs, where that is not known.
    fn name(&mut self, tid: Tid, entered: Moment) {
        let thread = self.thread(tid);
        if !std::mem::replace(&mut thread.is_named, true) {
            let (thread, program) = (thread.number, Process(tid).program());
            self.followed.programs.push(Program { thread, process: tid, from_order: entered.order, program });
        }
    }

    fn is_taken(&self, wanted: Exclusive) -> bool {
        let begun = self.threads.values().filter_map(|thread| thread.call.as_ref());
        begun.filter_map(|begun| begun.plan.exclusive()).any(|taken| taken == wanted)
    }

    /// Threads that waited for another's call look again; what they are to do may be something else by now.
    fn admit(&mut self) -> Result<(), FollowError> {
        for _ in 0..self.waiting.len() {
            if let Some(tid) = self.waiting.pop_front() {
                self.entry(tid)?;
            }
        }
        Ok(())
    }

    /// A thread's call is over.
    fn over(&mut self, tid: Tid, result: Option<i64>) {
        if let Some(begun) = self.thread(tid).call.take() {
            self.finish(tid, begun, result);
        }
    }

    fn finish(&mut self, tid: Tid, begun: Begun, result: Option<i64>) {
        // A call that a signal interrupted, and that is made again by itself (ERESTARTSYS and its like, linux/errno.h).
        if result.is_some_and(|result| (-516..=-512).contains(&result)) {
            return;
        }
        let left = self.moment();
        if let CallPlan::Acknowledge(mut bytes) = begun.plan {
            bytes.truncate(result.and_then(|result| usize::try_from(result).ok()).unwrap_or(0));
            self.followed.acknowledgements.extend(self.lines.push(&bytes, left));
            return;
        }
        if let CallPlan::Unfollowed(way) = begun.plan
            && result.is_some_and(|result| result >= 0)
            && !self.followed.unfollowed.iter().any(|other| other == way)
        {
            self.followed.unfollowed.push(way.to_owned());
        }
        let thread = self.thread(tid).number;
        let Begun { name, entered, plan } = begun;
        let returned = result.and_then(|result| u64::try_from(result).ok()).unwrap_or(0);
        let over = match plan {
            CallPlan::Submit(submissions) => {
                self.requests.submitted(Process(tid), (thread, entered), submissions, returned)
            }
            CallPlan::Reap { events } => self.requests.reaped(Process(tid), events, returned),
            plan => vec![Over { thread, name, entered, plan, result }],
        };
        for over in over {
            self.list(Process(tid), over, left);
        }
    }

    /// A call, or a request, that is over by `left`.
    fn list(&mut self, process: Process, over: Over, left: Moment) {
        let Over { thread, name, entered, plan, result } = over;
        for mut action in self.places.done(process, plan, result, self.room_bytes) {
            if let Action::Write { offset_bytes, data, .. } = &mut action {
                *data = self.kept(*offset_bytes, std::mem::replace(data, Data::Zeroes(0)));
            }
            self.followed.calls.push(Call { thread, name: name.to_owned(), entered, left, result, action });
        }
    }

    /// Requests whose ends nobody saw.
    fn list_rest(&mut self, first: Tid) {
        let rest = self.requests.rest();
        if !rest.is_empty() {
            let left = self.moment();
            for over in rest {
                self.list(Process(first), over, left);
            }
        }
    }

    /// Written data, as it is kept.
    fn kept(&mut self, offset_bytes: u64, data: Data) -> Data {
        let Data::Bytes(bytes) = &data else { return data };
        let len_bytes = bytes.len() as u64;
        if len_bytes >= ZEROES_BYTES_MIN && bytes.iter().all(|byte| *byte == 0) {
            return Data::Zeroes(len_bytes);
        }
        self.room_bytes = self.room_bytes.saturating_sub(len_bytes);
        match self.whole_bytes.checked_sub(len_bytes) {
            Some(left) => {
                self.whole_bytes = left;
                data
            }
            None => data.by_sectors(offset_bytes),
        }
    }

    fn ended(&mut self, tid: Tid, status: i32) -> Result<(), FollowError> {
        // Killed in a call: nobody knows what it did.
        self.over(tid, None);
        self.threads.remove(&tid);
        self.waiting.retain(|waiting| *waiting != tid);
        if self.program == Some(tid) {
            self.followed.status = ExitStatus::from_raw(status);
            if !self.wait_for_all {
                for other in self.threads.keys() {
                    ptrace::kill(*other);
                }
            }
        }
        self.admit()
    }
}

fn go(tid: Tid, go: Go, signal: i32) -> Result<(), FollowError> {
    ptrace::resume(tid, go, signal).map_err(trace("let a thread go on"))
}
