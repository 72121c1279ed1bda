//! Numbers of devices as the kernel's records have them.

/// `st_dev` of a device in the kernel's own encoding (`MKDEV`): 12 bits major, 20 bits minor.
pub fn device_of_kernel(device: u32) -> u64 {
    rustix::fs::makedev(device >> 20, device & 0xf_ffff)
}

/// The other way round, as far as it goes.
pub fn device_to_kernel(device: u64) -> u32 {
    (rustix::fs::major(device) << 20) | (rustix::fs::minor(device) & 0xf_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_the_same_both_ways() {
        for device in [rustix::fs::makedev(7, 3), rustix::fs::makedev(259, 70_000), rustix::fs::makedev(0, 41)] {
            assert_eq!(device_of_kernel(device_to_kernel(device)), device);
        }
    }
}
