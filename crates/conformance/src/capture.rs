//! Network captures judged by Wireshark's dissectors, which did not come from the same hand as the server.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::{Error, host};

/// What the dissector saw of NVMe/TCP in a capture.
#[derive(Debug)]
pub struct Verdict {
    /// How many PDUs of each type (NVMe/TCP transport specification 1.0, table 16), by type number.
    pub pdus: BTreeMap<u8, u64>,
    /// Packets that are malformed or that the dissector has an error-level remark on.
    pub malformed: Vec<String>,
    /// TCP segments that the capture lost; then the verdict says little.
    pub lost: u64,
}

/// Reads a capture of NVMe/TCP on `port`.
pub fn nvme_tcp(capture: &Path, port: u16) -> Result<Verdict, Error> {
    let tshark = host::require("tshark", "tshark")?;
    let dissect = |filter: &str, fields: &[&str]| -> Result<String, Error> {
        let mut command = Command::new(&tshark);
        command.arg("-n").arg("-r").arg(capture).args([
            "-d",
            &format!("tcp.port=={port},nvme-tcp"),
            "-Y",
            filter,
            "-T",
            "fields",
        ]);
        for field in fields {
            command.args(["-e", field]);
        }
        host::text(&mut command)
    };
    let mut pdus = BTreeMap::new();
    // A packet may hold several PDUs: their types are listed with commas.
    for kind in dissect("nvme-tcp", &["nvme-tcp.type"])?.split([',', '\n']).filter(|kind| !kind.is_empty()) {
        let kind = kind.parse().map_err(|_| Error::answer("tshark", format!("PDU type {kind:?}")))?;
        *pdus.entry(kind).or_insert(0) += 1;
    }
    let malformed = dissect(
        "_ws.malformed || (nvme-tcp && _ws.expert.severity == error)",
        &["frame.number", "_ws.expert.message"],
    )?;
    let lost =
        dissect("tcp.analysis.lost_segment || tcp.analysis.ack_lost_segment", &["frame.number"])?.lines().count();
    Ok(Verdict { pdus, malformed: malformed.lines().map(str::to_owned).collect(), lost: lost as u64 })
}
