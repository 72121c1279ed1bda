//! From what the real fio printed to a run's jobs.

use serde_json::{Deserializer, Value};

use crate::results::{DirectionResult, JobResult, Latency, Series};

/// What fio's output holds.
#[derive(Debug)]
pub(super) struct FioResult {
    pub(super) jobs: Vec<JobResult>,
    /// What went wrong in jobs, one line each.
    pub(super) failures: Vec<String>,
    /// The part for people.
    pub(super) text: String,
    /// The JSON part, as fio wrote it.
    pub(super) json: String,
}

/// Reads the output of `--output-format=normal,json+`; the error says what is wrong.
pub(super) fn parse(output: &[u8]) -> Result<FioResult, String> {
    let output = String::from_utf8_lossy(output);
    let at = output
        .match_indices('{')
        .map(|(at, _)| at)
        .find(|at| *at == 0 || output.as_bytes().get(at - 1) == Some(&b'\n'))
        .ok_or("it holds no JSON")?;
    let (text, rest) = output.split_at(at);
    let mut documents = Deserializer::from_str(rest).into_iter::<Value>();
    let document = match documents.next() {
        Some(Ok(document)) => document,
        Some(Err(error)) => return Err(error.to_string()),
        None => return Err("it holds no JSON".to_owned()),
    };
    let (json, after) = rest.split_at_checked(documents.byte_offset()).unwrap_or((rest, ""));
    let text = format!("{}\n{}\n", text.trim_end(), after.trim());
    let json = json.to_owned();
    let jobs = document.get("jobs").and_then(Value::as_array).ok_or("it names no jobs")?;
    let mut failures = Vec::new();
    let mut results = Vec::new();
    for job in jobs {
        let name = job.get("jobname").and_then(Value::as_str).unwrap_or_default().to_owned();
        if let Some(error) = number(job, "error").filter(|error| *error != 0) {
            let words = std::io::Error::from_raw_os_error(i32::try_from(error).unwrap_or(i32::MAX));
            failures.push(format!("job {name}: fio reports error {error} ({words})"));
        }
        let mut directions: Vec<DirectionResult> = ["read", "write", "trim"]
            .iter()
            .filter_map(|direction| direction_result(direction, job.get(direction)?))
            .collect();
        directions.extend(job.get("sync").and_then(|sync| sync_result(sync, job)));
        results.push(JobResult { name, directions });
    }
    Ok(FioResult { jobs: results, failures, text, json })
}

fn number(of: &Value, key: &str) -> Option<u64> {
    of.get(key).and_then(Value::as_u64)
}

fn direction_result(direction: &str, part: &Value) -> Option<DirectionResult> {
    let ios = number(part, "total_ios").filter(|ios| *ios > 0)?;
    let lat = latency(part.get("lat_ns")?);
    Some(DirectionResult {
        direction: direction.to_owned(),
        ios,
        bytes: number(part, "io_bytes").unwrap_or(0),
        runtime_ns: number(part, "runtime").unwrap_or(0) * 1_000_000,
        iops_mean: part.get("iops_mean").and_then(Value::as_f64).unwrap_or(0.0),
        slat: part.get("slat_ns").map(latency).filter(|latency| latency.count > 0),
        clat: part.get("clat_ns").map(latency),
        lat,
        series: Series::default(),
    })
}

fn sync_result(sync: &Value, job: &Value) -> Option<DirectionResult> {
    let lat = latency(sync.get("lat_ns")?);
    let ios = lat.count.max(number(sync, "total_ios").unwrap_or(0));
    if ios == 0 {
        return None;
    }
    Some(DirectionResult {
        direction: "sync".to_owned(),
        ios,
        bytes: 0,
        runtime_ns: number(job, "job_runtime").unwrap_or(0) * 1_000_000,
        iops_mean: 0.0,
        slat: None,
        clat: None,
        lat,
        series: Series::default(),
    })
}

/// A distribution; fio gives the middle of each bin, and leaves the bins out
/// where it was not asked for percentiles.
fn latency(of: &Value) -> Latency {
    let float = |key: &str| of.get(key).and_then(Value::as_f64).unwrap_or(0.0);
    let mut bins: Vec<(u64, u64)> = of
        .get("bins")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter_map(|(value, count)| Some((value.parse().ok()?, count.as_u64()?)))
        .collect();
    bins.sort_unstable();
    let counted: u64 = bins.iter().map(|(_, count)| count).sum();
    let count = number(of, "N").filter(|count| *count > 0).unwrap_or(counted);
    Latency {
        count,
        mean_ns: float("mean"),
        stddev_ns: float("stddev"),
        min_ns: float("min") as u64,
        max_ns: float("max") as u64,
        bins: bins.into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = r#"j: (g=0): rw=randread
fio-3.33
{
  "fio version" : "fio-3.33",
  "jobs" : [
    {
      "jobname" : "j",
      "error" : 5,
      "job_runtime" : 12,
      "read" : {
        "io_bytes" : 409600, "total_ios" : 100, "runtime" : 9, "iops_mean" : 11000.5,
        "slat_ns" : { "min" : 0, "max" : 0, "mean" : 0.0, "stddev" : 0.0, "N" : 0 },
        "clat_ns" : { "min" : 80, "max" : 90, "mean" : 85.0, "stddev" : 1.5, "N" : 100,
                      "percentile" : { "99.000000" : 90 }, "bins" : { "90" : 40, "82" : 60 } },
        "lat_ns" : { "min" : 80, "max" : 90, "mean" : 85.0, "stddev" : 1.5, "N" : 100, "bins" : { "82" : 60, "90" : 40 } }
      },
      "write" : { "total_ios" : 0, "lat_ns" : { "N" : 0 } },
      "sync" : { "total_ios" : 3, "lat_ns" : { "min" : 1, "max" : 3, "mean" : 2.0, "stddev" : 1.0, "N" : 3 } }
    }
  ]
}

j: (groupid=0, jobs=1): err= 0
"#;

    #[test]
    fn both_halves_of_the_output() {
        let result = parse(OUTPUT.as_bytes()).unwrap();
        assert!(result.text.starts_with("j: (g=0)") && result.text.ends_with("err= 0\n"));
        assert!(result.json.starts_with('{') && result.json.ends_with('}'));
        let [job] = result.jobs.as_slice() else { panic!("{:?}", result.jobs) };
        let names: Vec<&str> = job.directions.iter().map(|part| part.direction.as_str()).collect();
        assert_eq!(names, ["read", "sync"]);
        let read = &job.directions[0];
        assert_eq!((read.ios, read.bytes, read.runtime_ns), (100, 409_600, 9_000_000));
        assert_eq!(read.lat.bins.iter().collect::<Vec<_>>(), [(82, 60), (90, 40)]);
        assert_eq!((read.lat.percentile_ns(50.0), read.lat.percentile_ns(99.0)), (82, 90));
        assert!(read.slat.is_none() && read.clat.is_some());
        assert_eq!(job.directions[1].ios, 3);
        assert_eq!(result.failures.len(), 1);
        assert!(result.failures[0].contains("error 5"));
    }

    #[test]
    fn what_is_no_result_says_so() {
        for (text, word) in [("", "no JSON"), ("fio: bad", "no JSON"), ("{", "EOF"), ("{}", "no jobs")] {
            let error = parse(text.as_bytes()).unwrap_err();
            assert!(error.contains(word), "{text:?} gave {error:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_an_answer(bytes: Vec<u8>, at in 0..OUTPUT.len()) {
            let _ = parse(&bytes);
            let mut damaged = OUTPUT.as_bytes().to_vec();
            if let Some(byte) = bytes.first() {
                damaged[at] = *byte;
            }
            let _ = parse(&damaged);
        }
    }
}
