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
    /// Header and data digests that the dissector computed itself and found right.
    pub good_digests: u64,
    /// Packets with a wrong digest, or that are malformed, or that the dissector has an error-level remark on.
    pub malformed: Vec<String>,
    /// Packets at which the dissector itself failed (an assertion in Wireshark): nothing is known of them.
    pub undissected: u64,
    /// Acknowledgements of TCP segments that the capture has not; then the verdict says little. (One that the network itself
    /// lost, as an emulated one does under load, is there when it was sent again.)
    pub lost: u64,
}

/// Reads a capture of NVMe/TCP on `port`.
pub fn nvme_tcp(capture: &Path, port: u16) -> Result<Verdict, Error> {
    let tshark = host::require("tshark", "tshark")?;
    let dissect = |filter: &str, fields: &[&str]| -> Result<String, Error> {
        let mut command = Command::new(&tshark);
        command.args(["-o", "nvme-tcp.check_hdgst:TRUE", "-o", "nvme-tcp.check_ddgst:TRUE"]);
        command.args(["-o", "tcp.reassemble_out_of_order:TRUE"]);
        command.args(["-d", &format!("tcp.port=={port},nvme-tcp"), "-n", "-T", "fields", "-Y", filter]);
        for field in fields {
            command.args(["-e", field]);
        }
        host::text(command.arg("-r").arg(capture))
    };
    let mut pdus = BTreeMap::new();
    // A packet may hold several PDUs: their types are listed with commas.
    for kind in listed(&dissect("nvme-tcp", &["nvme-tcp.type"])?) {
        let kind = kind.parse().map_err(|_| Error::answer("tshark", format!("PDU type {kind:?}")))?;
        *pdus.entry(kind).or_insert(0) += 1;
    }
    // proto.h of Wireshark: a checksum is bad (0), good (1) or unverified (2).
    let statuses = dissect("nvme-tcp", &["nvme-tcp.hdgst.status", "nvme-tcp.ddgst.status"])?;
    let good_digests = listed(&statuses).filter(|status| *status == "1").count() as u64;
    let bad = "nvme-tcp.hdgst.status == 0 || nvme-tcp.ddgst.status == 0";
    let remarks = format!("_ws.malformed || (nvme-tcp && _ws.expert.severity == error) || {bad}");
    let remarks = dissect(&remarks, &["frame.number", "_ws.expert.message"])?;
    let (undissected, malformed): (Vec<&str>, Vec<&str>) =
        remarks.lines().partition(|line| line.contains("failed assertion"));
    let lost = dissect("tcp.analysis.ack_lost_segment", &["frame.number"])?;
    Ok(Verdict {
        pdus,
        good_digests,
        malformed: malformed.into_iter().map(str::to_owned).collect(),
        undissected: undissected.len() as u64,
        lost: lost.lines().count() as u64,
    })
}

/// The values of fields as tshark prints them, one packet a line.
fn listed(text: &str) -> impl Iterator<Item = &str> {
    text.split([',', '\t', '\n']).filter(|value| !value.is_empty())
}
