//! What a client may ask for: one export for each namespace.

use nvme::NamespaceId;
use ssd::Identity;

use super::proto::TransmissionFlags;
use crate::error::ServeError;

/// The preferred block size where the logical block is smaller: a page, which
/// file systems and the page cache use.
const PREFERRED_BLOCK_BYTES: u32 = 4096;

/// Largest minimum block size the protocol allows (block size constraints).
const MAX_MINIMUM_BLOCK_BYTES: u32 = 1 << 16;

/// One namespace as NBD describes it.
#[derive(Clone, Debug)]
pub(crate) struct Export {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) nsid: NamespaceId,
    pub(crate) size_bytes: u64,
    pub(crate) flags: TransmissionFlags,
    pub(crate) minimum_block_bytes: u32,
    pub(crate) preferred_block_bytes: u32,
    pub(crate) maximum_request_bytes: u32,
}

/// The exports of a device: namespace `n` is `ns<n>`, and the first is also the
/// default export (the empty name).
#[derive(Clone, Debug)]
pub(crate) struct Exports(Vec<Export>);

impl Exports {
    pub(crate) fn of(identity: &Identity, read_only: bool, maximum_request_bytes: u32) -> Result<Self, ServeError> {
        if identity.zoned.is_some() {
            return Err(ServeError::Zoned { model: identity.model.clone() });
        }
        let lba_bytes = identity.lba_bytes;
        if !lba_bytes.is_power_of_two() || lba_bytes > MAX_MINIMUM_BLOCK_BYTES {
            return Err(ServeError::BlockSize { lba_bytes });
        }
        let mut flags = TransmissionFlags::HAS_FLAGS
            | TransmissionFlags::SEND_FLUSH
            | TransmissionFlags::SEND_FUA
            | TransmissionFlags::CAN_MULTI_CONN;
        flags.set(TransmissionFlags::ROTATIONAL, identity.rotational);
        if read_only {
            flags |= TransmissionFlags::READ_ONLY;
        } else {
            flags |= TransmissionFlags::SEND_WRITE_ZEROES;
            flags.set(TransmissionFlags::SEND_TRIM, identity.supports_deallocate);
        }
        let exports = identity.namespace_blocks.iter().zip(1..).map(|(&blocks, nsid)| Export {
            name: format!("ns{nsid}"),
            description: format!("{} namespace {nsid}", identity.model),
            nsid: NamespaceId(nsid),
            size_bytes: blocks * u64::from(lba_bytes),
            flags,
            minimum_block_bytes: lba_bytes,
            preferred_block_bytes: lba_bytes.max(PREFERRED_BLOCK_BYTES),
            maximum_request_bytes,
        });
        Ok(Self(exports.collect()))
    }

    pub(crate) fn find(&self, name: &[u8]) -> Option<&Export> {
        if name.is_empty() {
            return self.0.first();
        }
        self.0.iter().find(|export| export.name.as_bytes() == name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Export> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use ssd::{Device, NullDevice, ZonedIdentity};

    use super::*;

    #[test]
    fn a_zoned_device_is_refused() {
        let plain = NullDevice::new(1 << 20, 4096, units::Nanos(1));
        let mut identity = plain.identity().clone();
        assert_eq!(Exports::of(&identity, false, 1 << 20).unwrap().iter().count(), 1);
        identity.zoned = Some(ZonedIdentity {
            zone_blocks: 1 << 16,
            zone_capacity_blocks: 1 << 16,
            max_open: None,
            max_active: None,
            append_limit_bytes: 1 << 17,
            reads_across_zones: true,
            descriptor_extension_bytes: 0,
            zrwa: None,
        });
        assert!(matches!(Exports::of(&identity, false, 1 << 20), Err(ServeError::Zoned { .. })));
    }
}
