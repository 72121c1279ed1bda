//! What is run, from `NAME=VALUE` arguments.

use std::path::PathBuf;

use crate::Result;

/// Names of the engines, in the order of the table.
pub const ENGINES: [&str; 5] = ["betree", "rocksdb", "fjall", "redb", "sqlite"];

#[derive(Clone)]
pub struct Plan {
    pub entries: u64,
    pub value_bytes: usize,
    /// Point lookups, and operations of each YCSB workload.
    pub operations: u64,
    /// What an engine, with the page cache behind it, may have.
    pub memory_bytes: u64,
    /// What an engine may keep of what it has read.
    pub cache_bytes: u64,
    /// Seconds after which a phase ends, whatever is left; loading has four times as many.
    pub limit_s: f64,
    /// Folder for the stores and the results.
    pub folder: PathBuf,
    pub engines: Vec<String>,
    /// One engine, in this process: how the program runs itself.
    pub only: Option<String>,
}

impl Plan {
    pub fn from_arguments(arguments: impl Iterator<Item = String>) -> Result<Self> {
        let mut plan = Self {
            entries: 3_000_000,
            value_bytes: 100,
            operations: 100_000,
            memory_bytes: 0,
            cache_bytes: 0,
            limit_s: 20.0,
            folder: "engines".into(),
            engines: ENGINES.map(str::to_owned).into(),
            only: None,
        };
        for argument in arguments {
            let (name, value) = argument.split_once('=').ok_or(format!("{argument}: not NAME=VALUE"))?;
            match name {
                "entries" => plan.entries = value.parse()?,
                "value" => plan.value_bytes = value.parse()?,
                "operations" => plan.operations = value.parse()?,
                "memory_mib" => plan.memory_bytes = value.parse::<u64>()? << 20,
                "cache_mib" => plan.cache_bytes = value.parse::<u64>()? << 20,
                "limit_s" => plan.limit_s = value.parse()?,
                "folder" => plan.folder = value.into(),
                "engines" => plan.engines = value.split(',').map(str::to_owned).collect(),
                "only" => plan.only = Some(value.to_owned()),
                _ => return Err(format!("{name}: unknown").into()),
            }
        }
        if let Some(unknown) = plan.engines.iter().find(|name| !ENGINES.contains(&name.as_str())) {
            return Err(format!("{unknown}: no engine; there are {}", ENGINES.join(", ")).into());
        }
        if plan.memory_bytes == 0 {
            plan.memory_bytes = (plan.data_bytes() / 4).max(64 << 20);
        }
        if plan.cache_bytes == 0 {
            plan.cache_bytes = plan.memory_bytes / 4;
        }
        Ok(plan)
    }

    /// Bytes of keys and values.
    pub fn data_bytes(&self) -> u64 {
        self.entries * (KEY_BYTES + self.value_bytes) as u64
    }

    /// What an engine may keep of what it has to write.
    pub fn write_bytes(&self) -> u64 {
        self.memory_bytes / 4
    }

    /// The arguments that make a process do one engine's part.
    pub fn arguments(&self, only: &str) -> Vec<String> {
        vec![
            format!("entries={}", self.entries),
            format!("value={}", self.value_bytes),
            format!("operations={}", self.operations),
            format!("memory_mib={}", self.memory_bytes >> 20),
            format!("cache_mib={}", self.cache_bytes >> 20),
            format!("limit_s={}", self.limit_s),
            format!("folder={}", self.folder.display()),
            format!("only={only}"),
        ]
    }
}

pub const KEY_BYTES: usize = 16;

/// Key `number`: every number has another one, in an order that jumps.
pub fn key(number: u64) -> [u8; KEY_BYTES] {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).swap_bytes().wrapping_mul(0xd6e8_feb8_6659_fd93);
    let mut key = [b'k'; KEY_BYTES];
    key[..8].copy_from_slice(&mixed.to_be_bytes());
    key
}
