//! Little's law on whole runs: the requests in the block layer, integrated over
//! time by the block layer, equal the latencies that the jobs measured, summed.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::atomic::AtomicBool;

use lab::Experiment;
use lab::results::{RunResult, Store};
use lab::{Batch, PoolOptions, Quiet, Shard, execute, finished, plan};

/// Runs a spec whose host takes no time, so that a request is in the block
/// layer exactly as long as its job waits for it.
fn run(sweep: &str, fio: &str) -> Vec<RunResult> {
    let text = format!(
        "title = 'law'\n[stack]\ndevice = 'samsung-980pro-1tb'\n\
         cpu = {{ cores = 4, syscall = '0ns', context_switch = '0ns', migration = '0ns' }}\n\
         io_path = {{ submit = '0ns', complete = '0ns' }}\n[workload]\nfio = '''\n{fio}'''\n[sweep]\n{sweep}\n"
    );
    let experiment = Experiment::parse("law", "law.toml", &text, Path::new(""), &[]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(folder.path()).unwrap();
    let stop = AtomicBool::new(false);
    let options = PoolOptions { threads: 1, shard: Shard::WHOLE, observer: &Quiet, stop: &stop };
    let plan = plan(&experiment).unwrap();
    for outcome in execute(&[Batch { name: "", plan: &plan, store: &store }], options) {
        assert_eq!(outcome.unwrap().unfinished, 0);
    }
    finished(&plan, &store, Shard::WHOLE).unwrap()
}

#[test]
fn time_in_queue_is_the_sum_of_latencies() {
    let devices = "'stack.device' = ['samsung-980pro-1tb', 'optane-905p-960gb', 'samsung-860evo-250gb', 'hdd-7200-1tb', 'microsd-evo-128gb']\n\
                   'workload.set.iodepth' = [1, 7, 32]\n'workload.set.rw' = ['randread', 'randwrite', 'randrw']";
    let runs = run(devices, "[job]\nioengine=libaio\ndirect=1\nbs=4k\nsize=1g\nnumber_ios=300\nnorandommap=1\n");
    assert_eq!(runs.len(), 45);
    let mut exact = 0;
    for run in runs {
        assert_eq!(run.failures, Vec::<String>::new());
        let parts = run.jobs.iter().flat_map(|job| &job.directions);
        let latencies_ns: f64 = parts.map(|part| part.lat.mean_ns * part.lat.count as f64).sum();
        let in_queue_ns = run.counter("block.time_in_queue_ns").unwrap() as f64;
        let said = format!("{:?}: {in_queue_ns} in queue, {latencies_ns} in latencies", run.parameters);
        // A bio that was merged, or waits for a tag, is no request of its own.
        let without = ["block.merges_back", "block.merges_front", "block.merges_request", "block.tag_waits"];
        if without.iter().any(|name| run.counter(name) != Some(0)) {
            assert!(in_queue_ns <= latencies_ns, "{said}");
            continue;
        }
        assert!((in_queue_ns - latencies_ns).abs() / latencies_ns < 1e-6, "{said}");
        exact += 1;
    }
    assert!(exact >= 30, "only {exact} of 45 runs had neither merges nor waits for tags");
}
