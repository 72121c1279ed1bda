//! A profile held against a drive's own measurements: `plumb validate --data`.
//!
//! A table of measurements is recognised by its columns ([`recognise`]), each
//! row becomes an experiment ([`Case`]) which is simulated on the profile's
//! device behind a modelled host ([`Host`]), and both sides are compared
//! ([`judge`]).

mod case;
mod csv;
mod drive;
mod figure;
mod files;
mod hosts;
mod judge;
mod outputs;
mod parallel;
mod reference;
mod simulate;
mod stack;
mod table;

pub use case::{Case, Contest, Load, Occupancy, Rate, ResetMode, Stream, Timed, TimedOperation};
pub use csv::{CsvError, Sheet, SheetRow};
pub use drive::{Bed, Drive, DriveEngine, DriveOp, FioError, Ran, read_fio, simulate as simulate_drive};
pub use figure::{Figure, Figures};
pub use files::{FilesError, read_tables};
pub use hosts::Host;
pub use judge::{FigureVerdict, JudgeOptions, RowVerdict, Summary, TableVerdict, Verdict, ZVerdict, judge};
pub use outputs::{errors_table, page};
pub(crate) use parallel::parallel;
pub use stack::{Stack, ZincTunables};
pub use table::{Kind, Row, Table, TableError, recognise};
