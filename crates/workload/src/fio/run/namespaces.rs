//! The namespaces that jobs name, and the zones they share.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use block::Limits;
use nvme::NamespaceId;

use super::plan::ThreadPlan;
use super::start_error::StartFault;
use super::zones::Zones;
use crate::Host;
use crate::fio::Job;

/// What the jobs of a run share.
pub(super) struct Namespaces<'a> {
    host: &'a Host,
    /// Real and imagined zones, one of each namespace.
    zones: Vec<Rc<Zones>>,
    /// Threads that write to zones, by namespace and the stonewall they stand behind.
    writers: BTreeMap<(NamespaceId, usize), Writers>,
}

/// Threads that write to zones at a time.
#[derive(Default)]
struct Writers {
    /// Their zones: (end, start), so that the first to end comes first.
    ranges: BTreeSet<(u32, u32)>,
    /// No more of the ranges than these lie apart.
    apart_max: u32,
}

impl<'a> Namespaces<'a> {
    pub fn new(host: &'a Host) -> Self {
        Self { host, zones: Vec::new(), writers: BTreeMap::new() }
    }

    /// The namespace that a job names, with its limits and, under `zonemode=zbd`,
    /// its zones.
    pub fn of(&mut self, job: &Job) -> Result<(NamespaceId, Limits, Option<Rc<Zones>>), StartFault> {
        let namespace = job.options.namespace();
        let nsid = NamespaceId(namespace);
        let Some(limits) = self.host.disk.limits_of(nsid) else {
            let namespaces = self.host.disk.namespaces();
            return Err(StartFault::NoSuchNamespace { job: job.name.clone(), namespace, namespaces });
        };
        if !job.options.zones.zbd {
            return Ok((nsid, limits, None));
        }
        let zones = match self.zones.iter().find(|zones| zones.nsid() == nsid) {
            Some(zones) => zones.clone(),
            None => {
                let zones = Rc::new(self.make(job, nsid, &limits)?);
                zones.set_targets_max(targets_max(job, &limits)?);
                self.zones.push(zones.clone());
                zones
            }
        };
        check(job, &zones)?;
        Ok((nsid, limits, Some(zones)))
    }

    fn make(&self, job: &Job, nsid: NamespaceId, limits: &Limits) -> Result<Zones, StartFault> {
        if let Some(zones) = Zones::of_device(self.host, nsid) {
            return Ok(zones);
        }
        let options = &job.options.zones;
        let Some(zone_bytes) = options.size_bytes else {
            return Err(StartFault::NoZones { job: job.name.clone() });
        };
        let wrong =
            |option, given, must: String| Err(StartFault::BlockLength { job: job.name.clone(), option, given, must });
        let lba = u64::from(limits.logical_block_bytes);
        if !zone_bytes.is_multiple_of(lba) {
            return wrong("zonesize", zone_bytes, format!("it must be a multiple of the logical block, {lba}"));
        }
        let device_bytes = limits.capacity_sectors * block::Sector::BYTES;
        if zone_bytes > device_bytes {
            return wrong("zonesize", zone_bytes, format!("the device has {device_bytes}: lower it"));
        }
        let capacity_bytes = options.capacity_bytes.unwrap_or(zone_bytes);
        if capacity_bytes > zone_bytes || !capacity_bytes.is_multiple_of(lba) {
            let must = format!("it must be at most zonesize, {zone_bytes}, and a multiple of {lba}");
            return wrong("zonecapacity", capacity_bytes, must);
        }
        Ok(Zones::imagined(nsid, device_bytes, zone_bytes, capacity_bytes))
    }

    /// Notes a thread that is to run; `wall` tells those that run at a time.
    pub fn admit(&mut self, job: &Job, plan: &ThreadPlan, thread: u32, wall: usize) -> Result<(), StartFault> {
        let Some(zone_plan) = plan.zones.as_ref().filter(|_| job.options.pattern.writes) else { return Ok(()) };
        let options = &job.options.zones;
        let zones = &zone_plan.zones;
        if !zones.claim_active(self.host, &zone_plan.range, thread, options.job_max_open) {
            return Err(StartFault::OpenAlready { job: job.name.clone(), limit: zones.targets_max() });
        }
        if options.reset_frequency > 0.0 && !zones.watch(&zone_plan.range, options.reset_frequency) {
            return Err(StartFault::ResetRegionsDiffer { job: job.name.clone() });
        }
        let limit = zones.targets_max();
        let writers = self.writers.entry((zones.nsid(), wall)).or_default();
        if writers.ranges.insert((zone_plan.range.end, zone_plan.range.start)) {
            writers.apart_max += 1;
        }
        if limit > 0 && writers.apart_max > limit {
            writers.apart_max = writers.apart();
            if writers.apart_max > limit {
                return Err(StartFault::TooManyWriters { job: job.name.clone(), writers: writers.apart_max, limit });
            }
        }
        Ok(())
    }
}

impl Writers {
    /// The most ranges of which no two overlap: each needs a zone of its own.
    fn apart(&self) -> u32 {
        let (mut count, mut free_from) = (0, 0);
        for (end, start) in &self.ranges {
            if *start >= free_from {
                count += 1;
                free_from = *end;
            }
        }
        count
    }
}

/// Zones that may be written to at a time; 0 is no limit (fio zbd.c,
/// zbd_set_max_open_zones).
fn targets_max(job: &Job, limits: &Limits) -> Result<u32, StartFault> {
    let options = &job.options.zones;
    let of_device = limits.zoned.as_ref().and_then(|zoned| zoned.max_open).filter(|_| !options.ignore_limits);
    match of_device {
        Some(limit) if options.max_open > limit => {
            Err(StartFault::MaxOpenZones { job: job.name.clone(), asked: options.max_open, limit })
        }
        Some(limit) if options.max_open == 0 => Ok(limit),
        _ => Ok(options.max_open),
    }
}

/// What a job says of zones that an earlier one has already set up.
fn check(job: &Job, zones: &Zones) -> Result<(), StartFault> {
    let options = &job.options.zones;
    let other = zones.targets_max();
    if options.max_open > 0 && options.max_open != other {
        return Err(StartFault::MaxOpenZonesDiffer { job: job.name.clone(), asked: options.max_open, other });
    }
    if options.job_max_open > 0 && other == 0 {
        return Err(StartFault::JobMaxOpenZonesAlone { job: job.name.clone() });
    }
    match options.size_bytes {
        Some(given) if given != zones.zone_bytes() => Err(StartFault::BlockLength {
            job: job.name.clone(),
            option: "zonesize",
            given,
            must: format!("a zone has {}: write that, or leave it out", zones.zone_bytes()),
        }),
        _ => Ok(()),
    }
}
