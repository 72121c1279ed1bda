//! A job file made fit for the real fio inside a guest.
//!
//! The text stays what its author wrote: defaults go before it, the spec's
//! overrides after each job's own settings, where fio lets the last one win.

/// Where jobs do their I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobTarget {
    /// On the block device, whatever the job file names.
    Device,
    /// In files below the mount point.
    MountPoint,
}

/// The variable that holds the device's node inside, and that of the mount point.
const DEVICE_VARIABLE: &str = "${PLUMB_DEVICE}";
const MOUNT_VARIABLE: &str = "${PLUMB_MOUNT}";

/// A line that opens a section: its name.
fn section_name(line: &str) -> Option<&str> {
    let rest = line.trim().strip_prefix('[')?;
    rest.split_once(']').map(|(name, _)| name)
}

/// The names of the jobs.
pub(super) fn sections(text: &str) -> Vec<String> {
    text.lines().filter_map(section_name).filter(|name| *name != "global").map(str::to_owned).collect()
}

/// Whether a line that is no comment has `word` in it.
pub(super) fn mentions(text: &str, word: &str) -> bool {
    text.lines().any(|line| !line.trim_start().starts_with(['#', ';']) && line.contains(word))
}

/// The job file for fio: only the jobs of `wanted` where it names some, under
/// `overrides`, on `place`.
pub(super) fn for_fio(
    text: &str,
    wanted: &[String],
    overrides: &[(String, String)],
    place: JobTarget,
    seed: u64,
) -> String {
    // Threads: one process, whose exit ends all. Percentiles of every latency:
    // the record's distributions come from them.
    let mut out = format!(
        "[global]\nthread=1\nlat_percentiles=1\nclat_percentiles=1\nslat_percentiles=1\nrandrepeat=1\nrandseed={seed}\n"
    );
    if place == JobTarget::MountPoint {
        out += &format!("directory={MOUNT_VARIABLE}\n");
    }
    let mut current: Option<&str> = None;
    let mut kept = true;
    for line in text.lines() {
        if let Some(name) = section_name(line) {
            end_section(&mut out, current.filter(|_| kept), overrides, place);
            kept = name == "global" || wanted.is_empty() || wanted.iter().any(|wanted| wanted == name);
            current = Some(name);
        }
        if kept {
            out += line;
            out.push('\n');
        }
    }
    end_section(&mut out, current.filter(|_| kept), overrides, place);
    out
}

/// What is set last in a job.
fn end_section(out: &mut String, section: Option<&str>, overrides: &[(String, String)], place: JobTarget) {
    if section.is_none_or(|name| name == "global") {
        return;
    }
    for (key, value) in overrides {
        *out += &format!("{key}={value}\n");
    }
    if place == JobTarget::Device {
        *out += &format!("filename={DEVICE_VARIABLE}\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# mine\n[global]\nbs=4k\n[a]\nrw=read\nfilename=/dev/nvme0n1\n[b]\nrw=write\n";

    fn overrides() -> Vec<(String, String)> {
        vec![("bs".to_owned(), "8k".to_owned())]
    }

    #[test]
    fn the_specs_settings_win_in_every_job() {
        let text = for_fio(TEXT, &[], &overrides(), JobTarget::Device, 7);
        let jobs = text.split("[a]").nth(1).unwrap();
        assert_eq!(
            jobs,
            "\nrw=read\nfilename=/dev/nvme0n1\nbs=8k\nfilename=${PLUMB_DEVICE}\n[b]\nrw=write\nbs=8k\nfilename=${PLUMB_DEVICE}\n"
        );
        assert!(text.starts_with("[global]\nthread=1\n") && text.contains("randseed=7\n"));
    }

    #[test]
    fn only_the_jobs_asked_for_run() {
        let text = for_fio(TEXT, &["b".to_owned()], &[], JobTarget::MountPoint, 1);
        assert!(!text.contains("[a]") && !text.contains("rw=read") && text.contains("[b]\nrw=write\n"));
        assert!(text.contains("directory=${PLUMB_MOUNT}\n") && !text.contains("PLUMB_DEVICE"));
        assert!(text.contains("bs=4k\n"), "globals stay");
    }

    #[test]
    fn sections_have_names() {
        assert_eq!(sections(TEXT), ["a", "b"]);
        assert!(mentions("x\nioengine=io_uring_cmd", "io_uring_cmd"));
        assert!(!mentions(" # ioengine=io_uring_cmd", "io_uring_cmd"));
    }
}
