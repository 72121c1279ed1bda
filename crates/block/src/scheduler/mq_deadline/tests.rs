//! mq-deadline by itself: order, merges, and the bound on waiting.

use rand::RngExt;

use super::*;
use crate::bio::BioFlags;
use crate::scheduler::bench::Bench;

fn bench(config: MqDeadlineConfig) -> Bench<MqDeadline> {
    Bench::new(MqDeadline::new(config))
}

const NOW: Nanos = Nanos::ZERO;

#[test]
fn a_batch_follows_sector_order_from_the_oldest() {
    let mut bench = bench(MqDeadlineConfig::default());
    for sector in [500, 100, 900, 300, 700] {
        bench.insert(BioOp::Read, sector, 8, NOW);
    }
    // No request at or above sector 0 was served yet, so the sweep starts at the lowest.
    assert_eq!(bench.sectors(NOW), [100, 300, 500, 700, 900]);
    // The sweep goes on from where it was, then starts over from the oldest.
    for sector in [800, 950, 100] {
        bench.insert(BioOp::Read, sector, 8, NOW);
    }
    assert_eq!(bench.sectors(NOW), [950, 800, 100]);
}

#[test]
fn reads_go_first_until_writes_are_starved() {
    let config = MqDeadlineConfig { fifo_batch: 2, ..Default::default() };
    let mut bench = bench(config);
    for index in 0..8 {
        bench.insert(BioOp::Write, 10_000 + index * 100, 8, NOW);
        bench.insert(BioOp::Read, index * 100, 8, NOW);
    }
    let order: String = std::iter::from_fn(|| bench.dispatch(NOW))
        .map(|(direction, ..)| if direction == Direction::Read { 'r' } else { 'w' })
        .collect();
    // The first batch is taken for one under way; then two batches of reads for
    // each of writes (writes_starved 2).
    assert_eq!(order, "rrrrrrwwrrwwwwww");
}

#[test]
fn an_expired_request_starts_the_next_batch() {
    let config = MqDeadlineConfig { fifo_batch: 1, ..Default::default() };
    let mut bench = bench(config);
    bench.insert(BioOp::Read, 5000, 8, NOW);
    assert_eq!(bench.dispatch(NOW).unwrap().1, 5000);
    bench.insert(BioOp::Read, 100, 8, NOW);
    bench.insert(BioOp::Read, 6000, 8, Nanos::from_millis(1));
    bench.insert(BioOp::Read, 7000, 8, Nanos::from_millis(1));
    assert_eq!(bench.dispatch(Nanos::from_millis(499)).unwrap().1, 6000);
    assert_eq!(bench.dispatch(Nanos::from_millis(500)).unwrap().1, 100);
}

#[test]
fn bios_join_waiting_requests() {
    let mut bench = bench(MqDeadlineConfig::default());
    bench.insert(BioOp::Write, 100, 8, NOW);
    bench.insert(BioOp::Write, 200, 8, NOW);
    assert!(bench.merge(BioOp::Write, 108, 8), "back");
    assert!(bench.merge(BioOp::Write, 192, 8), "front");
    assert!(!bench.merge(BioOp::Read, 116, 8), "another direction");
    assert!(!bench.merge(BioOp::Write, 300, 8), "no neighbour");
    // Closing the gap joins the two requests.
    assert!(bench.merge(BioOp::Write, 116, 76));
    assert_eq!(bench.freed.len(), 1);
    assert_eq!(bench.dispatch(NOW), Some((Direction::Write, 100, 108)));
    assert_eq!(bench.dispatch(NOW), None);
    assert!(!bench.scheduler.has_work(0));
}

#[test]
fn front_merges_and_look_ups_can_be_turned_off() {
    let mut bench = bench(MqDeadlineConfig { front_merges: false, ..Default::default() });
    bench.insert(BioOp::Write, 100, 8, NOW);
    bench.scheduler.last_merge = None;
    assert!(!bench.merge(BioOp::Write, 92, 8));
    assert!(bench.merge(BioOp::Write, 108, 8));
    bench.pool.nomerges = NoMerges::OneHit;
    assert!(bench.merge(BioOp::Write, 116, 8), "the last merged request is still tried");
    bench.scheduler.last_merge = None;
    assert!(!bench.merge(BioOp::Write, 124, 8));
}

#[test]
fn inserted_requests_join_and_keep_the_earlier_deadline() {
    let mut bench = bench(MqDeadlineConfig::default());
    let late = bench.insert(BioOp::Write, 108, 8, Nanos::from_millis(1));
    bench.insert(BioOp::Write, 500, 8, Nanos::from_millis(2));
    // It continues 108+8 and would expire earlier.
    let early = bench.insert(BioOp::Write, 116, 8, NOW);
    assert_eq!(bench.freed, [early]);
    assert_eq!(bench.scheduler.known[late].expires_at, Nanos::from_secs(5));
    assert_eq!(bench.sectors(NOW), [108, 500]);
}

#[test]
fn a_joined_request_takes_the_place_of_the_older() {
    let mut bench = bench(MqDeadlineConfig { fifo_batch: 0, ..Default::default() });
    for (sector, millis) in [(116, 0), (50, 1), (100, 2)] {
        bench.insert(BioOp::Read, sector, 8, Nanos::from_millis(millis));
    }
    assert!(bench.merge(BioOp::Read, 108, 8), "between 100+8 and 116+8");
    let late = Nanos::from_secs(1);
    assert_eq!(bench.sectors(late), [100, 50]);
}

#[test]
fn a_merged_request_moves_in_all_orders() {
    let mut bench = bench(MqDeadlineConfig::default());
    bench.insert(BioOp::Write, 100, 8, NOW);
    assert!(bench.merge(BioOp::Write, 92, 8));
    // Back merges look for the end, front merges for the new start.
    assert!(bench.merge(BioOp::Write, 108, 8));
    assert!(bench.merge(BioOp::Write, 84, 8));
    assert_eq!(bench.dispatch(NOW), Some((Direction::Write, 84, 32)));
    let classes = bench.scheduler.classes.iter();
    assert!(classes.flat_map(|class| class.sorted.iter().chain(&class.ends)).all(|set| set.is_empty()));
}

#[test]
fn a_full_request_takes_no_more() {
    let mut bench = bench(MqDeadlineConfig::default());
    bench.insert(BioOp::Write, 0, 2040, NOW);
    assert!(!bench.merge(BioOp::Write, 2040, 16), "2056 sectors are over the device's 2048");
    assert!(!bench.merge(BioOp::Write, 2040, 8), "a request that was refused once is left alone");
    assert_eq!(bench.dispatch(NOW), Some((Direction::Write, 0, 2040)));
}

/// After it has expired, a request waits for no more dispatches than the batch
/// rules allow. `expires` is what the checker expects of the scheduler.
fn longest_overrun(config: MqDeadlineConfig, expires: [Nanos; 2], seed: u64) -> Result<(), String> {
    let batch = u64::from(config.fifo_batch.max(1));
    let starved = u64::from(config.writes_starved);
    let mut rng = sim::rng::stream(seed, "deadline");
    let mut bench = bench(config);
    bench.pool.nomerges = NoMerges::Never;
    struct Waiting {
        rq: Rq,
        direction: Direction,
        expires_at: Nanos,
        /// Once expired: dispatches by then, and older requests of its direction.
        overdue: Option<(u64, u64)>,
    }
    let mut waiting: Vec<Waiting> = Vec::new();
    let (mut now, mut dispatches) = (Nanos::ZERO, 0_u64);
    for _ in 0..4000 {
        now += Nanos::from_micros(rng.random_range(0..100));
        // The device takes commands as fast as they come, half of the time.
        if waiting.len() < 200 && rng.random_bool(0.5) {
            let op = if rng.random_bool(0.6) { BioOp::Read } else { BioOp::Write };
            // Most lie behind the sweep, so that those before it starve.
            let sector = if rng.random_bool(0.05) { 0 } else { 8 * (dispatches + rng.random_range(1..200)) };
            let rq = bench.insert(op, sector, 8, now);
            let direction = bench.pool.requests[rq].direction();
            waiting.push(Waiting { rq, direction, expires_at: now + expires[direction as usize], overdue: None });
        } else if let Some(rq) = bench.scheduler.dispatch(&mut bench.pool, 0, now) {
            let place = waiting.iter().position(|entry| entry.rq == rq).unwrap();
            let Waiting { direction, overdue, .. } = waiting.remove(place);
            if let Some((since, rank)) = overdue {
                // The batch under way, then for each older request of its
                // direction and itself a batch, and those of the other direction between.
                let batches = match direction {
                    Direction::Read => 1 + (rank + 1) + (rank + 1).div_ceil(starved) + 1,
                    Direction::Write => 1 + (rank + 1) * (starved + 1),
                };
                let passed = dispatches - since;
                if passed > batches * batch {
                    return Err(format!("{direction:?} of rank {rank} was passed by {passed}, {batches} batches"));
                }
            }
            dispatches += 1;
            bench.pool.requests.release(rq);
        }
        let mut ranks = [0; 2];
        for entry in &mut waiting {
            let rank = &mut ranks[entry.direction as usize];
            if entry.expires_at <= now {
                entry.overdue.get_or_insert((dispatches, *rank));
            }
            *rank += 1;
        }
    }
    Ok(())
}

#[test]
fn no_request_waits_long_past_its_deadline() {
    for seed in 0..40 {
        let config = MqDeadlineConfig {
            read_expire: Nanos::from_micros(500),
            write_expire: Nanos::from_millis(2),
            // With 0 reads never go before writes, and have no bound.
            writes_starved: 1 + (seed % 3) as u32,
            fifo_batch: 1 + (seed % 7) as u32,
            ..Default::default()
        };
        let expires = [config.read_expire, config.write_expire];
        longest_overrun(config, expires, seed).unwrap();
    }
}

#[test]
fn a_scheduler_without_deadlines_is_seen() {
    let config = MqDeadlineConfig {
        read_expire: Nanos::from_secs(100),
        write_expire: Nanos::from_secs(100),
        fifo_batch: 2,
        ..Default::default()
    };
    let expires = [Nanos::from_micros(500), Nanos::from_millis(2)];
    assert!((0..40).any(|seed| longest_overrun(config.clone(), expires, seed).is_err()));
}

#[test]
fn an_urgent_class_goes_first_also_while_it_is_at_the_device() {
    let mut bench = bench(MqDeadlineConfig::default());
    let idle = bench.insert_with(BioOp::Read, 10, 8, BioFlags::IDLE_PRIORITY, NOW);
    let normal = bench.insert(BioOp::Read, 100, 8, NOW);
    let urgent = bench.insert_with(BioOp::Write, 1000, 8, BioFlags::REALTIME, NOW);
    for (rq, sector) in [(urgent, 1000), (normal, 100), (idle, 10)] {
        assert_eq!(bench.sectors(NOW), [sector], "only the most urgent class goes");
        assert_eq!(bench.sectors(NOW), [], "the next waits for its end");
        bench.finish(rq);
    }
    assert!(!bench.scheduler.has_work(0));
}

#[test]
fn a_class_that_has_waited_long_goes_all_the_same() {
    let aging = Nanos::from_millis(5);
    let mut bench = bench(MqDeadlineConfig { prio_aging_expire: aging, ..MqDeadlineConfig::default() });
    bench.insert_with(BioOp::Read, 10, 8, BioFlags::IDLE_PRIORITY, NOW);
    bench.insert_with(BioOp::Read, 1000, 8, BioFlags::REALTIME, NOW);
    assert_eq!(bench.sectors(Nanos(aging.0 - 1)), [1000]);
    assert_eq!(bench.sectors(aging), [10]);
}

#[test]
fn classes_do_not_merge() {
    let mut bench = bench(MqDeadlineConfig::default());
    bench.insert_with(BioOp::Write, 100, 8, BioFlags::REALTIME, NOW);
    assert!(!bench.merge(BioOp::Write, 108, 8), "a best-effort bio joined a realtime request");
    bench.insert(BioOp::Write, 108, 8, NOW);
    assert!(bench.freed.is_empty(), "requests of two classes were joined");
    let more = bench.bio_with(BioOp::Write, 92, 8, BioFlags::REALTIME);
    assert!(bench.scheduler.merge_bio(&mut bench.pool, 0, more, &mut bench.freed));
}
