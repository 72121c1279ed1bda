//! What programs did.

/// Steps of several lanes (threads) on several files. Each lane takes its steps in order, one after the other; lanes run beside one
/// another.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// Sizes of the files, in bytes.
    pub files: Vec<u64>,
    /// What was done, in the order in which it was seen.
    pub steps: Vec<Step>,
}

/// One thing that a lane did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Which file, by its place in [`Trace::files`].
    pub file: usize,
    /// Who.
    pub lane: u32,
    /// How long the lane worked between its last step and this one.
    pub think_ns: u64,
    /// What.
    pub action: Action,
}

/// What was done to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It was opened.
    Open,
    /// All of it was mapped, to be read.
    Map,
    /// It was read by a call.
    Read {
        /// First byte.
        offset_bytes: u64,
        /// Bytes.
        length_bytes: u64,
    },
    /// It was read through its mapping.
    Touch {
        /// First byte.
        offset_bytes: u64,
        /// Bytes.
        length_bytes: u64,
    },
    /// The program asked the kernel to load something (`readahead`, `posix_fadvise`).
    Advise {
        /// First byte.
        offset_bytes: u64,
        /// Bytes.
        length_bytes: u64,
    },
}

impl Trace {
    /// Reads of each lane and file as steps, each file opened by its first step.
    pub fn of_reads(files: Vec<u64>, reads: impl IntoIterator<Item = (usize, u32, u64, u64)>) -> Self {
        let mut opened = vec![false; files.len()];
        let mut steps = Vec::new();
        for (file, lane, offset_bytes, length_bytes) in reads {
            if let Some(opened) = opened.get_mut(file)
                && !std::mem::replace(opened, true)
            {
                steps.push(Step { file, lane, think_ns: 0, action: Action::Open });
            }
            steps.push(Step { file, lane, think_ns: 0, action: Action::Read { offset_bytes, length_bytes } });
        }
        Self { files, steps }
    }

    /// The same with this much work before each step.
    #[must_use]
    pub fn thinking(mut self, think_ns: u64) -> Self {
        self.steps.iter_mut().for_each(|step| step.think_ns = think_ns);
        self
    }
}
