//! How fast the flash SSD model runs: I/Os per second of processor time,
//! memory, and time to set up. Usage: `device_rate [commands]`.

mod support;

use std::time::Instant;

use nvme::{Command, CommandId, Lba, LbaRange, NamespaceId, QueueId};
use ssd::config::{Initial, Overwritten};
use ssd::{Completion, Device, Ssd, SsdConfig, Submission};
use support::{Random, cpu_s, resident_bytes};
use trace::RequestId;
use units::{ByteSize, Nanos};

const DEPTH: u16 = 32;

/// Keeps `DEPTH` random 4 KiB commands outstanding; the clock goes on from `now`.
fn run(ssd: &mut Ssd, random: &mut Random, now: &mut Nanos, write: bool, commands: u64) {
    let blocks = ssd.identity().namespace_blocks[0];
    let mut submit = |ssd: &mut Ssd, now, cid| {
        let range = LbaRange { start: Lba(random.below(blocks)), count: 1 };
        let nsid = NamespaceId::FIRST;
        let command =
            if write { Command::write(nsid, range, false) } else { Command::Read { nsid, range, fua: false } };
        ssd.submit(now, Submission { queue: QueueId(1), cid, command, data: None, request: RequestId(0) });
    };
    for cid in 0..DEPTH {
        submit(ssd, *now, CommandId(cid));
    }
    let mut completed = 0;
    let mut done: Vec<Completion> = Vec::with_capacity(DEPTH.into());
    while completed < commands + u64::from(DEPTH) {
        let Some(next) = ssd.next_event() else { return };
        *now = next;
        ssd.advance(next, &mut done);
        for completion in done.drain(..) {
            completed += 1;
            if completed <= commands {
                submit(ssd, next, completion.cid);
            }
        }
    }
}

fn counter(ssd: &Ssd, name: &str) -> u64 {
    ssd.counters().iter().find(|(key, _)| key == name).map_or(0, |(_, value)| *value)
}

/// A phase of a measurement: what it is called, writes or reads, how many.
struct Phase {
    name: &'static str,
    write: bool,
    warm: u64,
    commands: u64,
}

fn measure(config: &SsdConfig, phases: &[Phase]) {
    let before = (resident_bytes(), Instant::now());
    let mut ssd = match Ssd::new(config) {
        Ok(ssd) => ssd,
        Err(error) => {
            eprintln!("{}: {error}", config.model);
            std::process::exit(2);
        }
    };
    let ready = before.1.elapsed();
    let mut random = Random(1);
    let mut now = Nanos::ZERO;
    println!(
        "ready in {:.1} ms, map {:.0} MB when all is mapped",
        ready.as_secs_f64() * 1e3,
        ssd.map_bytes() as f64 / 1e6
    );
    for Phase { name, write, warm, commands } in phases {
        run(&mut ssd, &mut random, &mut now, *write, *warm);
        let names = ["destaged_bytes", "gc_moved_bytes"];
        let [destaged, moved] = names.map(|name| counter(&ssd, name));
        let start = (cpu_s(), now);
        run(&mut ssd, &mut random, &mut now, *write, *commands);
        let cpu = cpu_s() - start.0;
        let modelled = (now - start.1).as_secs_f64();
        let [destaged, moved] = [counter(&ssd, names[0]) - destaged, counter(&ssd, names[1]) - moved];
        let amplification = if destaged > 0 {
            format!(", write amplification {:.2}", 1.0 + moved as f64 / destaged as f64)
        } else {
            String::new()
        };
        println!(
            "  {name}: {:.2} M I/O per core-second; modelled {:.0} k IOPS{amplification}; {:.0} MB resident",
            *commands as f64 / cpu / 1e6,
            *commands as f64 / modelled / 1e3,
            resident_bytes().saturating_sub(before.0) as f64 / 1e6,
        );
    }
}

fn main() {
    let commands = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(4_000_000);
    let reference = SsdConfig::reference();
    let with = |fill: f64, overwritten: Overwritten| SsdConfig {
        initial: Initial { fill, overwritten, ..Initial::default() },
        ..reference.clone()
    };
    let mut terabyte = reference.clone();
    terabyte.namespaces = vec![ByteSize(1_000_000_000_000 / 4096 * 4096)];
    terabyte.over_provisioning = Some(0.07);
    let reads = |name| Phase { name, write: false, warm: commands / 4, commands };
    let writes = |name| Phase { name, write: true, warm: commands, commands };
    println!("1 TB, empty");
    measure(&terabyte, &[Phase { name: "one read", write: false, warm: 0, commands: 1 }]);
    println!("512 GiB, filled in order of address");
    measure(&with(1.0, Overwritten::Never), &[reads("4 KiB random read")]);
    println!("512 GiB, empty");
    measure(&with(0.0, Overwritten::Never), &[writes("4 KiB random write")]);
    println!("512 GiB, full, steady state of uniform overwriting, 28 % over-provisioning");
    let phases = [
        reads("4 KiB random read, map untouched"),
        writes("4 KiB random write, collecting"),
        reads("4 KiB random read, map in memory"),
    ];
    measure(&with(1.0, Overwritten::Uniform), &phases);
}
