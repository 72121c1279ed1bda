//! What a power cut leaves of any program's files, on a real kernel.
//!
//! A [`Trial`] runs a command once while the device keeps a log of its writes, names the states that a cut may leave, and lets the
//! kernel recover each of them in guests that run side by side; commands of the user and the file system's checker judge.
//!
//! In the trial's folder:
//!
//! | file | what it is |
//! |---|---|
//! | `trial.json` | what was run, with the contents of the host's files that it names; another trial does not go into the same folder |
//! | `writes.log` | the log of writes, see [`crash::LogReader`] |
//! | `calls.jsonl` | the command's system calls on files, see [`observe::calls::Followed`] |
//! | `recorded.json` | when the command began, how it ended, what it acknowledged |
//! | `judged-DIGEST/` | one for each way of judging: checks with the files that they name, what survives, how many states |
//! | `judged-DIGEST/judging.json` | which way that is |
//! | `judged-DIGEST/rehearsed` | the checks were content where no power was lost |
//! | `judged-DIGEST/verdicts-N.jsonl` | what was found, by one guest each; a second start leaves these states out |
//! | `offline/` | what was found without a kernel, a file for each part of the moments |
//! | `offline-judged-DIGEST/` | the same with scripts that look, for each way of judging |

mod broken_order;
mod callers_words;
mod checks;
mod explain;
mod inputs;
mod judging;
mod recorded_run;
mod settings;
mod survival;
mod task;
mod trial;
mod verdicts;

pub(crate) use callers_words::argument;
pub use checks::{ProgramCheck, UnknownCheck};
pub use crash::{Amount, EXHAUSTIVE_PARTS_MAX};
pub use explain::{Cause, Evidence, Explained, Group, grouped};
pub use judging::Progress;
pub use recorded_run::{CallersScripts, RecordedRun};
pub use settings::Judging;
pub use survival::Survival;
pub(crate) use task::signature;
pub(crate) use task::{Acknowledgement, Answer, Judge, Record, Recorded, Rehearsal, Stand, Task};
pub use task::{Fault, Judged, Lost, LostFile, Needs, SMALLEST, Smallest, Verdict};
pub use trial::{Recording, Trial};
pub use verdicts::Summary;
