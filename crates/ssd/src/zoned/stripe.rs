//! Where a zone's data lies: from stripe unit to array.
//!
//! A physical zone has a group of `stripe.channels` x `stripe.ways` dies. Groups
//! follow one another over the channels first, then over the ways (ConfZNS++: group
//! start is zone mod channel groups, then zone / channel groups mod way groups).
//! Inside, unit `s` goes to plane `s mod planes`, then round the group in the order
//! configured.

use super::config::{StripeOrder, ZonedLayout};

/// The places of stripe units.
#[derive(Clone, Debug)]
pub(super) struct Striping {
    channels: u32,
    zone_channels: u32,
    zone_ways: u32,
    planes: u32,
    channel_groups: u32,
    way_groups: u32,
    way_first: bool,
}

impl Striping {
    pub fn new(layout: &ZonedLayout, order: StripeOrder) -> Self {
        Self {
            channels: layout.channels,
            zone_channels: layout.zone_channels,
            zone_ways: layout.zone_ways,
            planes: layout.planes,
            channel_groups: layout.channels / layout.zone_channels,
            way_groups: layout.ways / layout.zone_ways,
            way_first: order == StripeOrder::WayFirst,
        }
    }

    /// The array of stripe unit `unit` of a physical zone.
    #[inline]
    pub fn array(&self, physical: u32, unit: u32) -> u32 {
        let plane = unit % self.planes;
        let turn = unit / self.planes;
        let (channel, way) = if self.way_first {
            (turn / self.zone_ways % self.zone_channels, turn % self.zone_ways)
        } else {
            (turn % self.zone_channels, turn / self.zone_channels % self.zone_ways)
        };
        let channel_group = physical % self.channel_groups;
        let way_group = physical / self.channel_groups % self.way_groups;
        let die = (way_group * self.zone_ways + way) * self.channels + channel_group * self.zone_channels + channel;
        die * self.planes + plane
    }
}
