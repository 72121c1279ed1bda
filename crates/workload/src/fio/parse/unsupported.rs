//! Options fio has and the model does not, and what to do instead.

use super::ParseErrorKind;
use super::table::option_specs;

/// Options of one kind, and why they are not taken.
pub(super) struct Group {
    pub names: &'static [&'static str],
    pub why: &'static str,
}

pub(super) const GROUPS: &[Group] = &[
    Group {
        names: &[
            "filesize",
            "file_append",
            "filename_format",
            "unique_filename",
            "opendir",
            "lockfile",
            "file_service_type",
            "openfiles",
            "pre_read",
            "create_fsync",
            "create_only",
            "fill_device",
            "fill_fs",
            "unlink_each_loop",
        ],
        why: "jobs run on the device, not on files; give the region by offset and size",
    },
    Group {
        names: &["bs_unaligned", "blocksize_unaligned"],
        why: "direct I/O must be aligned to the logical block; use bsrange or bssplit",
    },
    Group { names: &["bs_is_seq_rand"], why: "write one job for the sequential part and one for the random part" },
    Group {
        names: &["thinktime_blocks_type", "thinktime_iotime"],
        why: "use thinktime with thinktime_blocks, which counts I/Os as they complete",
    },
    Group {
        names: &["rate_min", "rate_iops_min", "ratemin", "rate_cycle", "rate_ignore_thinktime"],
        why: "a rate is a limit here; check the reported bandwidth against what you need",
    },
    Group {
        names: &["max_latency", "latency_target", "latency_window", "latency_percentile", "latency_run"],
        why: "sweep iodepth and read the latency percentiles instead",
    },
    Group {
        names: &["steadystate", "ss", "steadystate_duration", "ss_dur", "steadystate_ramp_time", "ss_ramp"],
        why: "the device's steady state is set in its profile; use runtime and ramp_time",
    },
    Group {
        names: &[
            "verify_backlog",
            "verify_backlog_batch",
            "verify_async",
            "verify_async_cpus",
            "verify_interval",
            "verify_offset",
            "verify_dump",
            "verify_only",
            "verify_state_load",
            "verify_state_save",
            "experimental_verify",
            "verify_write_sequence",
            "verify_header_seed",
            "verifysort",
            "verifysort_nr",
            "trim_percentage",
            "trim_verify_zero",
            "trim_backlog",
            "trim_backlog_batch",
            "verify_backlog_min",
        ],
        why: "verification reads everything back after the write phase (do_verify=1); verify=crc32c, crc64, meta or pattern",
    },
    Group {
        names: &[
            "write_iolog",
            "read_iolog",
            "read_iolog_chunked",
            "replay_no_stall",
            "replay_redirect",
            "replay_scale",
            "replay_align",
            "replay_time_scale",
            "replay_skip",
            "merge_blktrace_file",
            "merge_blktrace_scalars",
            "merge_blktrace_iters",
        ],
        why: "give the trace itself to the runner instead of a job file",
    },
    Group {
        names: &[
            "wait_for",
            "exitall",
            "exit_what",
            "exitall_on_error",
            "flow",
            "flow_id",
            "flow_sleep",
            "flow_watermark",
        ],
        why: "order jobs with stonewall, and end them with runtime",
    },
    Group {
        names: &["exec_prerun", "exec_postrun", "profile"],
        why: "nothing is executed on this machine; set the state of the device in the experiment",
    },
    Group { names: &["ioscheduler"], why: "the scheduler is part of the modelled stack; set it in the experiment" },
    Group {
        names: &["nice", "prio", "cmdprio", "cmdprio_percentage", "cmdprio_class", "cmdprio_bssplit"],
        why: "of priorities only classes are modelled, for whole jobs; use prioclass",
    },
    Group {
        names: &[
            "cpumask",
            "numa_cpu_nodes",
            "numa_mem_policy",
            "gtod_cpu",
            "cgroup",
            "cgroup_weight",
            "cgroup_nodelete",
        ],
        why: "place jobs with cpus_allowed",
    },
    Group {
        names: &["uid", "gid", "lockmem", "hugepage-size"],
        why: "the model has no users and no memory limits; remove it",
    },
    Group {
        names: &["dedupe_percentage", "dedupe_mode", "dedupe_working_set_percentage", "dedupe_global"],
        why: "no modelled device deduplicates; remove it",
    },
    Group {
        names: &["sync_file_range", "write_barrier", "atomic", "write_hint", "serialize_overlap"],
        why: "use fsync, fdatasync or sync",
    },
    Group {
        names: &[
            "log_hist_msec",
            "log_hist_coarseness",
            "write_hist_log",
            "log_max_value",
            "log_offset",
            "log_prio",
            "log_compression",
            "log_compression_cpus",
            "log_store_compressed",
            "log_unix_epoch",
            "log_alternate_epoch",
            "log_alternate_epoch_clock_id",
            "log_entries",
            "per_job_logs",
            "block_error_percentiles",
            "stats",
        ],
        why: "series and histograms are always in the results; log_avg_msec sets the interval",
    },
    Group {
        names: &["continue_on_error", "ignore_error", "error_dump"],
        why: "a job ends at its first error, and the run says so",
    },
    Group {
        names: &["hipri_percentage", "uncached", "nowait", "userspace_reap", "force_async"],
        why: "of the engines' own settings sqthread_poll and hipri are modelled; use those, or none",
    },
];

/// Why `key` is not an option: unsupported, or unknown with the nearest that is.
pub(super) fn explain(key: &str) -> ParseErrorKind {
    if let Some(group) = GROUPS.iter().find(|group| group.names.contains(&key)) {
        return ParseErrorKind::UnsupportedOption { option: key.to_owned(), why: group.why.to_owned() };
    }
    let known = option_specs().flat_map(|spec| std::iter::once(spec.name).chain(spec.aliases.iter().copied()));
    // A key longer than any option is not a slip of the pen, and is not compared.
    let short = key.len() <= 64;
    let likeness = |name: &str| strsim::damerau_levenshtein(key, name);
    let nearest = known.filter(|_| short).min_by_key(|name| likeness(name));
    let nearest = nearest.filter(|name| likeness(name) <= 1 + name.len() / 4).map(str::to_owned);
    ParseErrorKind::UnknownOption { option: key.chars().take(64).collect(), nearest }
}
