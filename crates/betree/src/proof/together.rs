//! Keys that are looked up together: their reads are at the device at the same time.

use rand::RngExt;

use super::below::DEVICES;
use super::reads::{modelled, options};
use super::workload::random;
use crate::{Database, Durability, Error};

const ENTRIES: u32 = 60_000;
const KEYS: usize = 200;

fn failed(error: Error) -> String {
    error.to_string()
}

/// Seconds of the device for keys one by one and for the same keys together, in a store that was just opened.
fn seconds(profile: &str, value_bytes: usize) -> Result<[f64; 2], String> {
    let device = modelled(profile)?;
    let database = Database::create(device.clone(), options(profile), 1).map_err(failed)?;
    let tree = database.tree("t").map_err(failed)?;
    let entries = if value_bytes > 10_000 { ENTRIES / 60 } else { ENTRIES };
    let key = |number: u32| number.wrapping_mul(0x9e37_79b9).to_be_bytes();
    for number in 0..entries {
        tree.insert(key(number), vec![number as u8; value_bytes], Durability::None).map_err(failed)?;
    }
    database.compact().map_err(failed)?;
    drop((tree, database));
    let mut random = random(1);
    let asked: Vec<u32> = (0..KEYS).map(|_| random.random_range(0..entries)).collect();
    let keys: Vec<[u8; 4]> = asked.iter().map(|number| key(*number)).collect();
    let mut seconds = [0.0; 2];
    for (together, seconds) in [false, true].into_iter().zip(&mut seconds) {
        let database = Database::open(device.clone(), options(profile)).map_err(failed)?;
        let tree = database.tree("t").map_err(failed)?;
        let began = device.now();
        let found = match together {
            true => tree.get_many(&keys).map_err(failed)?,
            false => keys.iter().map(|key| tree.get(key)).collect::<Result<_, _>>().map_err(failed)?,
        };
        *seconds = (device.now() - began).as_secs_f64();
        let expected = asked.iter().map(|number| Some(vec![*number as u8; value_bytes]));
        if !expected.eq(found) {
            return Err(format!("together {together}: a value is another"));
        }
    }
    Ok(seconds)
}

/// A quarter of the time that they take one by one, at most, on a device that does several things at once; half of it where what SATA
/// transfers counts; no longer on a disk.
pub(super) fn faster() -> Result<(), String> {
    for profile in DEVICES {
        for value_bytes in [500, 20_000] {
            let [alone, together] = seconds(profile, value_bytes)?;
            println!("{profile}, values of {value_bytes}: {:.2} ms, together {:.2} ms", alone * 1e3, together * 1e3);
            let most = match value_bytes {
                _ if profile.starts_with("hdd") => alone,
                500 => alone / 4.0,
                _ => alone / 2.0,
            };
            if together > most {
                return Err(format!("{profile}, values of {value_bytes}: {alone} s one by one, {together} s together"));
            }
        }
    }
    Ok(())
}

#[test]
fn keys_looked_up_together_are_read_together() {
    faster().unwrap_or_else(|what| panic!("{what}"));
}
