//! A device that maps in the order of acceptance: a power cut leaves a prefix of the writes, and all else is as ever.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{Action, Host, configs, sequence};
use crate::config::SsdConfig;
use crate::controller::Mutant;
use crate::ftl::order::{InOrderOfAcceptance, Order};

impl Host {
    fn ordered(config: &SsdConfig, mutant: Option<Mutant>) -> Self {
        let mut host = Self::new(config, None);
        host.ssd.ftl.set_order(Order::Acceptance(InOrderOfAcceptance::default()));
        mutant.into_iter().for_each(|mutant| host.ssd.break_by(mutant));
        host
    }
}

/// Devices whose cache is volatile, with room for what is delayed.
fn roomy() -> Vec<SsdConfig> {
    let mut configs = configs();
    configs.retain(|config| !config.buffer.power_loss_protected);
    configs.iter_mut().for_each(|config| config.geometry.blocks_per_plane = Some(20));
    configs
}

/// Without what maps at once, as zeroes and deallocation do.
fn writes(seed: u8) -> Vec<Action> {
    let mut actions = sequence(seed, 900);
    actions.retain(|action| !matches!(action, Action::Zero { .. } | Action::Trim { .. }));
    actions
}

#[test]
fn a_power_cut_leaves_a_prefix_of_the_writes() {
    for config in roomy() {
        for seed in 0..3 {
            let mut host = Host::ordered(&config, None);
            host.expects_prefix = true;
            host.run(&writes(seed)).unwrap();
        }
    }
}

#[test]
fn deallocation_meets_what_is_delayed() {
    for config in roomy() {
        for seed in 3..6 {
            Host::ordered(&config, None).run(&sequence(seed, 900)).unwrap();
        }
    }
}

#[test]
fn broken_orders_are_noticed() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let noticed = |mutant| {
        (0..=u8::MAX).any(|seed| {
            let run = || {
                let mut host = Host::ordered(&roomy()[0], Some(mutant));
                host.expects_prefix = true;
                host.run(&writes(seed))
            };
            !matches!(catch_unwind(AssertUnwindSafe(run)), Ok(Ok(())))
        })
    };
    let unnoticed: Vec<_> = Mutant::OF_ORDER.into_iter().filter(|mutant| !noticed(*mutant)).collect();
    std::panic::set_hook(hook);
    assert!(unnoticed.is_empty(), "{unnoticed:?}");
}
