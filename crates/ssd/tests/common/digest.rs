//! Digests of runs: what a test holds against the digests of the same runs earlier.

use std::fmt::Write;

/// Takes lines and bytes in, and gives sixteen hexadecimal digits for all of them.
#[derive(Default)]
pub struct Digest {
    hasher: blake3::Hasher,
    line: String,
}

impl Digest {
    pub fn line(&mut self, line: std::fmt::Arguments<'_>) {
        self.line.clear();
        self.line.write_fmt(line).unwrap();
        self.line.push('\n');
        self.hasher.update(self.line.as_bytes());
    }

    pub fn bytes(&mut self, bytes: Option<&[u8]>) {
        let length = bytes.map_or(u64::MAX, |bytes| bytes.len() as u64);
        self.hasher.update(&length.to_le_bytes());
        self.hasher.update(bytes.unwrap_or_default());
    }

    pub fn text(&self) -> String {
        self.hasher.finalize().to_hex()[..16].to_owned()
    }
}

/// Holds digests, in order, against those of a file with a line `DIGEST NAME` for each run. A change of behaviour that is meant
/// takes the lines that the failure prints.
pub fn compare(file: &str, now: &[(String, String)]) {
    let lines: String = now.iter().map(|(name, digest)| format!("{digest} {name}\n")).collect();
    let different: String = lines
        .lines()
        .filter(|line| !file.lines().any(|known| known == *line))
        .map(|line| format!("  {line}\n"))
        .collect();
    assert!(lines == file, "these runs differ from what they were:\n{different}all of them now:\n{lines}");
}
