//! What a power cut leaves of any program's files, on a real kernel.
//!
//! A [`Trial`] runs a command once while the device keeps a log of its writes, names the states that a cut may leave, and lets the
//! kernel recover each of them in guests that run side by side; commands of the user and the file system's checker judge.
//!
//! In the trial's folder:
//!
//! | file | what it is |
//! |---|---|
//! | `trial.json` | what was asked for; another trial does not go into the same folder |
//! | `writes.log` | the log of writes, see [`crash::LogReader`] |
//! | `calls.jsonl` | the command's system calls on files, see [`observe::calls::Followed`] |
//! | `recorded.json` | when the command began, how it ended, what it acknowledged |
//! | `verdicts-N.jsonl` | what was found, by one guest each; a second start leaves these states out |
//! | `offline/` | what was found without a kernel, a file for each part of the moments |

mod broken_order;
mod checks;
mod explain;
mod recorded_run;
mod survival;
mod task;
mod trial;
mod verdicts;

pub use checks::{ProgramCheck, UnknownCheck};
pub use crash::{Amount, EXHAUSTIVE_PARTS_MAX};
pub use explain::Evidence;
pub use recorded_run::RecordedRun;
pub use survival::Survival;
pub(crate) use task::{Acknowledgement, Answer, Judge, Record, Recorded, Stand, Task};
pub use task::{Fault, Judged, Lost, Smallest, Verdict};
pub use trial::{Progress, Recording, Trial};
pub use verdicts::Summary;
