//! The finish of the WD ZN540.
//!
//! After a base time the zone is padded like a zone being written: it takes turns at
//! idle arrays with the zones that have data, so n writers leave a finish one part in
//! n + 1 of the flash's bandwidth, and alone it has all of it. Padding takes no room in
//! the write buffer. Some finishes then wait for a write of the journal. Measured in
//! the data of "Performance Characterization of NVMe Flash Devices with Zoned
//! Namespaces" (CLUSTER '23) and ConfZNS++ (SYSTOR '24): 3.8 + 902.5 (1 - x) ms alone;
//! beside 2 to 7 writers 392, 288, 226, 189, 164, 150 MiB/s of 1174.

use units::Nanos;

use super::{FinishPlan, FinishPolicy};

pub(super) struct Measured {
    pub base: Nanos,
}

impl FinishPolicy for Measured {
    fn plan(&self) -> FinishPlan {
        FinishPlan::Share { base: self.base }
    }
}
