//! What must not be done in the event loop, because the kernel asks the event
//! loop for answers meanwhile: attaching the loop device, and detaching it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use fuse::Mount;

use super::loop_device::{self, LoopNumber};
use super::users::detach_from_users;
use crate::stop::Stop;

/// The threads only make system calls.
const STACK_BYTES: usize = 128 << 10;

/// A job that has ended.
pub(crate) enum Done {
    Attached(io::Result<LoopNumber>),
    /// The detachment is under way; who still has the device in use.
    Detached(LoopNumber, io::Result<Vec<String>>),
}

/// What attaching needs to know.
#[derive(Clone)]
pub(crate) struct AttachPlan {
    pub(crate) name: String,
    pub(crate) block_bytes: u32,
    pub(crate) read_only: bool,
    pub(crate) label: String,
    pub(crate) wanted: Option<LoopNumber>,
}

/// Jobs on their way, each in a thread of its own; there is one at a time.
pub(crate) struct Jobs {
    results: Receiver<Done>,
    sender: Sender<Done>,
    wake: Stop,
}

impl Jobs {
    pub(crate) fn new() -> io::Result<Self> {
        let (sender, results) = channel();
        Ok(Self { results, sender, wake: Stop::new()? })
    }

    /// Attaches the file of `mount` to a loop device.
    pub(crate) fn attach(&self, mount: Mount, plan: AttachPlan) -> io::Result<()> {
        self.start(move || {
            let attach = || {
                let file = mount.open(&plan.name, plan.read_only)?;
                loop_device::attach(&file, plan.wanted, plan.block_bytes, plan.read_only, &plan.label)
            };
            Done::Attached(attach())
        })
    }

    /// Detaches the device with this label, or has it detached when its last user goes.
    pub(crate) fn detach(&self, number: LoopNumber, label: String) -> io::Result<()> {
        self.start(move || Done::Detached(number, detach_from_users(number, &label)))
    }

    fn start(&self, job: impl FnOnce() -> Done + Send + 'static) -> io::Result<()> {
        let (sender, wake) = (self.sender.clone(), self.wake.try_clone()?);
        thread::Builder::new().name("loop-job".to_owned()).stack_size(STACK_BYTES).spawn(move || {
            // The receiver is gone when serving has ended meanwhile.
            let _ = sender.send(job());
            wake.ask();
        })?;
        Ok(())
    }

    /// The jobs that have ended since.
    pub(crate) fn take(&self) -> Vec<Done> {
        self.wake.take();
        self.results.try_iter().collect()
    }
}

impl AsFd for Jobs {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}
