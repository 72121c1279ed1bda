//! What the processor's work costs on this machine, and whether a guest that charges for it takes as long.

use apps::processor::{CLOSE_SYSTEM_CALLS, DEPTH, FUSE_SWITCHES, FUSE_SYSTEM_CALLS, ProcessorError, Timed};
use linux::{Charges, FileSystem, FrontEnd, Kernel, Linux, LinuxError};
use serde::Serialize;

/// Where charged and measured times of a job differ by more, the table is not trusted for it.
pub const TRUSTED_SHARE: f64 = 0.25;

/// Of these the table is made; others only check it.
const CALIBRATED: [&str; 12] = [
    "read-4k",
    "read-64k",
    "write-4k",
    "write-64k",
    "status-shallow",
    "status-deep",
    "open",
    "create",
    "read-new-page",
    "touch-page",
    "ping-pong",
    "fuse-read-4k",
];

/// Of `read-4k`, and a page.
const SMALL_KIB: f64 = 4.0;
/// What `stat` copies to the caller: `struct stat` of x86-64.
const STATUS_KIB: f64 = 144.0 / 1024.0;
/// Of `read-64k`, and of the reads of `read-new-page`.
const LARGE_KIB: f64 = 64.0;

/// Why there is no table, or nothing to hold it against.
#[derive(Debug, thiserror::Error)]
pub enum ProcessorCostError {
    /// A loop failed.
    #[error(transparent)]
    Job(#[from] ProcessorError),
    /// The guest failed.
    #[error(transparent)]
    Guest(#[from] LinuxError),
    /// Times that no costs explain.
    #[error("{what} took {median_ns:.0} ns, less than its parts do: {remedy}")]
    Implausible {
        /// Which job.
        what: &'static str,
        /// What it took.
        median_ns: f64,
        /// What may help.
        remedy: &'static str,
    },
    /// The guest's jobs.
    #[error("the jobs in the guest {0}")]
    Answer(String),
}

/// A job here and in the guest.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// The job.
    pub name: String,
    /// What one operation of it is.
    pub operation: String,
    /// Median on this machine.
    pub live_ns: f64,
    /// In the guest that charges by the table.
    pub charged_ns: f64,
    /// The table was made from it.
    pub calibrated: bool,
}

impl Compared {
    /// Charged over live.
    pub fn ratio(&self) -> f64 {
        self.charged_ns / self.live_ns
    }

    /// Within [`TRUSTED_SHARE`].
    pub fn is_trusted(&self) -> bool {
        (self.ratio() - 1.0).abs() <= TRUSTED_SHARE
    }
}

/// The costs that explain what the jobs took.
///
/// # Errors
/// [`ProcessorCostError::Implausible`] where a job took less than the parts of it that others told.
pub fn charges(timed: &[Timed]) -> Result<Charges, ProcessorCostError> {
    let median = |name: &'static str| {
        let found = timed.iter().find(|timed| timed.name == name).map(Timed::median_ns);
        found.ok_or_else(|| ProcessorCostError::Answer(format!("have no {name}")))
    };
    let [small, large, write, large_write, shallow, deep, open, create, new_page, touch, one_way] = [
        median("read-4k")?,
        median("read-64k")?,
        median("write-4k")?,
        median("write-64k")?,
        median("status-shallow")?,
        median("status-deep")?,
        median("open")?,
        median("create")?,
        median("read-new-page")?,
        median("touch-page")?,
        median("ping-pong")?,
    ];
    let remedy = "measure again, with less else running";
    let positive = |what, median_ns, cost: f64, remedy| {
        if cost > 0.0 { Ok(cost) } else { Err(ProcessorCostError::Implausible { what, median_ns, remedy }) }
    };
    let copy_per_kib = positive("read-64k", large, (large - small) / (LARGE_KIB - SMALL_KIB), remedy)?;
    let system_call = positive("read-4k", small, small - SMALL_KIB * copy_per_kib, remedy)?;
    let no_page_cache = "--folder has to be on a file system of a disk, not tmpfs";
    let page_cache_add =
        positive("read-new-page", new_page, new_page - large / (LARGE_KIB / SMALL_KIB), no_page_cache)?;
    // Nothing is left for each page where the file system takes many at once, as with large folios.
    let page_write = ((large_write - large) - (write - small)) / (LARGE_KIB / SMALL_KIB - 1.0);
    let page_write = page_write.max(0.0);
    let file_write = positive("write-4k", write, write - small - page_write, remedy)?;
    let component = positive("status-deep", deep, (deep - shallow) / (DEPTH - 1) as f64, remedy)?;
    let path = shallow - system_call - STATUS_KIB * copy_per_kib - component;
    let path = positive("status-shallow", shallow, path, remedy)?;
    let close = f64::from(CLOSE_SYSTEM_CALLS) * system_call;
    let open_one = positive("open", open, open - (system_call + path + component + close), remedy)?;
    // Opening it, removing it by another path, and two changes of the folder.
    let name_change = (create - open - (system_call + path + component)) / 2.0;
    let name_change = positive("create", create, name_change, remedy)?;
    // A write on one side and a read on the other.
    let context_switch = positive("ping-pong", one_way, one_way - 2.0 * system_call, remedy)?;
    // Free where nothing can be mounted, as it then cannot be used either.
    let fuse_request = match median("fuse-read-4k") {
        Ok(read) => {
            let told = f64::from(FUSE_SYSTEM_CALLS) * system_call + f64::from(FUSE_SWITCHES) * context_switch;
            (read - told).max(0.0)
        }
        Err(_) => 0.0,
    };
    let whole = |cost: f64| cost.round() as u32;
    Ok(Charges {
        system_call_ns: whole(system_call),
        copy_ns_per_kib: whole(copy_per_kib),
        path_ns: whole(path),
        path_component_ns: whole(component),
        open_ns: whole(open_one),
        name_change_ns: whole(name_change),
        file_write_ns: whole(file_write),
        page_write_ns: whole(page_write),
        page_fault_ns: whole(touch),
        page_cache_add_ns: whole(page_cache_add),
        context_switch_ns: whole(context_switch),
        fuse_request_ns: whole(fuse_request),
        plumb_fs: None,
    })
}

/// Runs the jobs in a guest that charges by the table, and sets them beside those of this machine.
///
/// # Errors
/// Where the guest or a job in it fails.
pub fn compare(
    plumb: &std::path::Path,
    kernel: &Kernel,
    charges: &Charges,
    live: &[Timed],
) -> Result<Vec<Compared>, ProcessorCostError> {
    let mut guest = Linux::new(plumb, "none");
    guest.front_end = FrontEnd::NullBlk;
    guest.file_system = FileSystem::Ext4;
    guest.charge = Some(charges.clone());
    let plumb = plumb.as_os_str().to_owned();
    let words = [plumb, "app".into(), "processor".into(), "--json".into()];
    let outcome = guest.command(words).run(kernel)?;
    let said = || String::from_utf8_lossy(&outcome.stderr).trim().to_owned();
    if !outcome.ended.success() {
        return Err(ProcessorCostError::Answer(format!("failed: {}", said())));
    }
    let charged: Vec<Timed> = serde_json::from_slice(&outcome.stdout)
        .map_err(|error| ProcessorCostError::Answer(format!("gave no times ({error}): {}", said())))?;
    let pairs = live.iter().filter_map(|live| {
        let charged = charged.iter().find(|charged| charged.name == live.name)?;
        Some(Compared {
            name: live.name.clone(),
            operation: live.operation.clone(),
            live_ns: live.median_ns(),
            charged_ns: charged.median_ns(),
            calibrated: CALIBRATED.contains(&live.name.as_str()),
        })
    });
    Ok(pairs.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timed(times: &[(&str, f64)]) -> Vec<Timed> {
        let one = |(name, ns): &(&str, f64)| Timed {
            name: (*name).to_owned(),
            operation: String::new(),
            quartiles_ns: [*ns; 3],
        };
        times.iter().map(one).collect()
    }

    /// What jobs take by a table.
    fn by(charges: &Charges) -> Vec<Timed> {
        let [call, copy, path, component, open, name, write, page_write, fault, add, switch, fuse] =
            charges.entries().map(|(_, ns)| f64::from(ns));
        let read = |kib: f64| call + kib * copy;
        let (by_path, close) = (call + path + component, f64::from(CLOSE_SYSTEM_CALLS) * call);
        let status = |components: f64| read(STATUS_KIB) + path + components * component;
        timed(&[
            ("read-4k", read(4.0)),
            ("read-64k", read(64.0)),
            ("write-4k", read(4.0) + write + page_write),
            ("write-64k", read(64.0) + write + 16.0 * page_write),
            ("status-shallow", status(1.0)),
            ("status-deep", status(16.0)),
            ("open", by_path + open + close),
            ("create", 2.0 * by_path + open + close + 2.0 * name),
            ("read-new-page", add + read(64.0) / 16.0),
            ("touch-page", fault),
            ("ping-pong", switch + 2.0 * call),
            ("fuse-read-4k", fuse + 3.0 * call + 2.0 * switch),
        ])
    }

    #[test]
    fn a_table_comes_out_of_the_times_that_it_makes() {
        let table = Charges {
            system_call_ns: 300,
            copy_ns_per_kib: 70,
            path_ns: 400,
            path_component_ns: 60,
            open_ns: 900,
            name_change_ns: 4000,
            file_write_ns: 2000,
            page_write_ns: 150,
            page_fault_ns: 500,
            page_cache_add_ns: 900,
            context_switch_ns: 1500,
            fuse_request_ns: 2500,
            plumb_fs: None,
        };
        assert_eq!(charges(&by(&table)).unwrap(), table);
        let without: Vec<_> = by(&table).into_iter().filter(|timed| timed.name != "fuse-read-4k").collect();
        assert_eq!(charges(&without).unwrap(), Charges { fuse_request_ns: 0, ..table });
    }

    #[test]
    fn times_that_no_costs_explain_are_refused_with_a_remedy() {
        let good = [
            ("read-4k", 600.0),
            ("read-64k", 5000.0),
            ("write-4k", 3000.0),
            ("write-64k", 7400.0),
            ("status-shallow", 700.0),
            ("status-deep", 1600.0),
            ("open", 3000.0),
            ("create", 15000.0),
            ("read-new-page", 900.0),
            ("touch-page", 500.0),
            ("ping-pong", 2000.0),
        ];
        assert!(charges(&timed(&good)).is_ok());
        for (job, ns, words) in [
            ("read-64k", 500.0, "again"),
            ("write-4k", 500.0, "again"),
            ("status-shallow", 300.0, "again"),
            ("status-deep", 600.0, "again"),
            ("open", 600.0, "again"),
            ("create", 3000.0, "again"),
            ("read-new-page", 300.0, "tmpfs"),
            ("ping-pong", 500.0, "again"),
        ] {
            let bad: Vec<_> = good.iter().map(|one| if one.0 == job { (job, ns) } else { *one }).collect();
            let error = charges(&timed(&bad)).unwrap_err().to_string();
            assert!(error.contains(job) && error.contains(words), "{error}");
        }
        assert!(charges(&timed(&good[1..])).unwrap_err().to_string().contains("no read-4k"));
    }
}
