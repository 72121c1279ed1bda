//! A modelled device as a storage, in virtual time.
//!
//! [`Modelled`] is any device of the crate `ssd` behind the seam, with a clock of its own. Nothing waits: when a queue is
//! asked for completions, the clock goes on to the device's next event until there is one. What the caller computes in
//! between takes no time, unless it says so ([`Modelled::wait`]).
//!
//! Used by one thread it is deterministic: the same device and the same requests give the same completions at the same
//! times. Several threads may use it, in whatever order they come to its lock.

mod machine;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ssd::config::Initial;
use ssd::profile::{BuildOptions, Profile, ProfileError};
use ssd::{Contents, Device, VolatileWrite};
use units::Nanos;

use crate::{BLOCK_BYTES, Completion, Queue, Request, Storage, StorageError, Tag};
use machine::{LineId, Machine};

/// What a profile leaves to each run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelledOptions {
    /// Use the first so many bytes of the device, in whole blocks; absent: all of it.
    pub capacity_bytes: Option<u64>,
    /// Key of the layout of initially overwritten data; absent: the profile's.
    pub seed: Option<u64>,
    /// The state at the start, in place of the profile's; only an SSD has one.
    pub initial: Option<Initial>,
    /// Whether an SSD has nothing after a power cut but what its flash holds ([`ssd::Ssd::recover_from_flash`]): for tests of power cuts,
    /// which can afford the memory that it takes for everything that is written.
    pub recover_from_flash: bool,
}

/// Why a device cannot be a storage.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelledError {
    /// The profile makes no device.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// Zones are written in order, a storage anywhere.
    #[error("{model}: a device with zones cannot be written in any order; choose one without")]
    Zoned {
        /// The device.
        model: String,
    },
    /// Reads would not return what was written.
    #[error("{model}: the device keeps no contents; build it with Contents::Memory or Contents::File")]
    NoContents {
        /// The device.
        model: String,
    },
    /// Blocks of the device and of the storage do not fit together.
    #[error("{model}: logical blocks of {lba_bytes} bytes do not divide {BLOCK_BYTES}")]
    Blocks {
        /// The device.
        model: String,
        /// Its logical block.
        lba_bytes: u32,
    },
    /// The device is smaller than what is asked for.
    #[error("{model}: {asked_bytes} bytes are asked for, and the device has {capacity_bytes}")]
    Capacity {
        /// The device.
        model: String,
        /// How much was asked for.
        asked_bytes: u64,
        /// How much there is.
        capacity_bytes: u64,
    },
}

/// What a power cut did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PowerLoss {
    /// Requests without an answer.
    pub unanswered: u64,
    /// Logical blocks of writes that might or might not have survived.
    pub undecided_blocks: u64,
    /// Of these, those that did.
    pub survived_blocks: u64,
}

/// A modelled device. A clone is another handle of the same one.
///
/// ```
/// use storage::{Buffer, Modelled, ModelledOptions, QueueExt, Storage};
/// use ssd::profile::Profile;
/// use units::Nanos;
///
/// let profile = Profile::builtin("samsung-980pro-1tb")?;
/// let device = Modelled::new(&profile, &ModelledOptions::default())?;
/// let mut queue = device.open_queue()?;
/// queue.write(0, Buffer::padded(b"hello"))?;
/// let written = device.now();
/// queue.flush()?;
/// assert!(written > Nanos::ZERO && device.now() > written);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Modelled {
    machine: Arc<Mutex<Machine>>,
    capacity_bytes: u64,
}

impl std::fmt::Debug for Modelled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Modelled({} bytes, at {})", self.capacity_bytes, self.now())
    }
}

impl Modelled {
    /// The device of a profile, in its initial state at time zero. Its bytes are in memory.
    ///
    /// # Errors
    ///
    /// What of the profile or the options does not make a storage.
    pub fn new(profile: &Profile, options: &ModelledOptions) -> Result<Self, ModelledError> {
        let build = BuildOptions {
            contents: Contents::Memory,
            power_cuts: true,
            seed: options.seed,
            initial: options.initial.clone(),
            recover_from_flash: options.recover_from_flash,
        };
        Self::of_device(profile.build_send(&build)?, options.capacity_bytes)
    }

    /// A device that was built already and has nothing outstanding; its first `capacity_bytes` or all of it.
    ///
    /// # Errors
    ///
    /// What of the device does not make a storage.
    pub fn of_device(device: Box<dyn Device + Send>, capacity_bytes: Option<u64>) -> Result<Self, ModelledError> {
        let identity = device.identity();
        let model = identity.model.clone();
        if identity.zoned.is_some() {
            return Err(ModelledError::Zoned { model });
        }
        if !identity.keeps_contents {
            return Err(ModelledError::NoContents { model });
        }
        let lba_bytes = identity.lba_bytes;
        if lba_bytes == 0 || !(BLOCK_BYTES as u32).is_multiple_of(lba_bytes) {
            return Err(ModelledError::Blocks { model, lba_bytes });
        }
        let whole = |bytes: u64| bytes / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
        let blocks = identity.namespace_blocks.first().copied().unwrap_or(0);
        let all_bytes = whole(blocks.saturating_mul(u64::from(lba_bytes)));
        let asked_bytes = capacity_bytes.unwrap_or(all_bytes);
        if asked_bytes > all_bytes {
            return Err(ModelledError::Capacity { model, asked_bytes, capacity_bytes: all_bytes });
        }
        let machine = Arc::new(Mutex::new(Machine::new(device)));
        Ok(Self { machine, capacity_bytes: whole(asked_bytes) })
    }

    fn locked(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time.
    pub fn now(&self) -> Nanos {
        self.locked().now()
    }

    /// Lets time pass: what the caller's own work takes. The device goes on meanwhile.
    pub fn wait(&self, duration: Nanos) {
        self.locked().wait(duration);
    }

    /// Cuts the power when the clock gets to `at`, at once where it is there already. From then on every request
    /// fails, those that are outstanding first, until [`Modelled::power_on`].
    pub fn cut_power_at(&self, at: Nanos) {
        self.locked().cut_power_at(at);
    }

    /// Whether the power is off.
    pub fn is_off(&self) -> bool {
        self.locked().is_off()
    }

    /// Switches the power on again. Of the writes that the cut left undecided those logical blocks survive for which
    /// `survives` says so, asked with the number of the block in its write and in order of acceptance; of writes that
    /// belong to streams, only those before which nothing is missing ([`crash::order`]). Where the power is on nothing
    /// happens.
    pub fn power_on(&self, survives: impl FnMut(&VolatileWrite, u32) -> bool) -> PowerLoss {
        self.locked().power_on(survives)
    }

    /// The device's own counters: (name with its unit, value), see [`Device::counters`].
    pub fn counters(&self) -> Vec<(String, u64)> {
        self.locked().counters()
    }
}

impl Storage for Modelled {
    fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    fn open_queue(&self) -> Result<Box<dyn Queue>, StorageError> {
        let line = self.locked().open_line();
        Ok(Box::new(ModelledQueue { modelled: self.clone(), line }))
    }
}

/// Dropped with requests outstanding, the device still carries them out.
struct ModelledQueue {
    modelled: Modelled,
    line: LineId,
}

impl Queue for ModelledQueue {
    fn submit(&mut self, tag: Tag, request: Request) {
        let checked = request.check(self.modelled.capacity_bytes);
        self.modelled.locked().submit(self.line, tag, request, checked);
    }

    fn complete(&mut self, completions: &mut Vec<Completion>) {
        self.modelled.locked().complete(self.line, completions);
    }
}

impl Drop for ModelledQueue {
    fn drop(&mut self) {
        self.modelled.locked().close_line(self.line);
    }
}
