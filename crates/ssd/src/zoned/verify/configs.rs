//! Tiny devices of every design that the configuration's check lets pass.

use units::ByteSize;

use super::super::config::ZonedConfig;

/// How writes are buffered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Buffering {
    None,
    Volatile,
    Protected,
    /// With Zone Random Write Areas.
    Areas,
}

/// Every way.
pub(super) const BUFFERINGS: [Buffering; 4] =
    [Buffering::None, Buffering::Volatile, Buffering::Protected, Buffering::Areas];

/// Two namespaces of zones of 64 blocks, 48 of them writable, on 4 dies; a zone has
/// three rows of blocks, each of 16 logical blocks.
const TINY: &str = r#"
    model = "tiny"
    lba = "4KiB"
    max_transfer = "64KiB"
    namespaces = [6, 4]
    [zone]
    size = "256KiB"
    capacity = "192KiB"
    max_open = 3
    max_active = 4
    append_limit = "32KiB"
    reads_across = true
    descriptor_extension = "64B"
    [geometry]
    channels = 2
    ways = 2
    page = "8KiB"
    [cell]
    read = "50us"
    program = "300us"
    erase = "2ms"
    [channel]
    bandwidth = "400MB"
    command_overhead = "500ns"
    [controller]
    processors = 2
    variation = 0.4
    seed = 1
    implicit_open_write = "2us"
    implicit_open_append = "3us"
    read = { service = "2us", delay = "3us" }
    write = { service = "5us", delay = "3us" }
    append = { service = "7us", delay = "3us" }
    flush = { service = "1us", delay = "1us" }
    open = { service = "9us", delay = "1us" }
    close = { service = "8us", delay = "1us" }
    finish = { service = "4us", delay = "1us" }
    reset = { service = "6us", delay = "1us" }
    manage = { service = "3us", delay = "1us" }
    report = { service = "10us", delay = "9us" }
    [link]
    bandwidth = "2GB"
    submission_latency = "1us"
    completion_latency = "1us"
    queues = 1
    queue_depth = 64
"#;

/// Zone Random Write Areas.
const AREAS: &str = r#"
    [zone.zrwa]
    size = "32KiB"
    granularity = "8KiB"
    zones = 2
"#;

/// The laws of measured designs.
const RESET_LAW: &str = r#"
    [management.reset_law]
    base = "100us"
    written = "900us"
    unfinished = { slope = "2ms", max = "200us", full = "80us" }
"#;

/// Replacements that turn on what the designs leave to a profile: page types, times
/// that vary, shared processors, arrays that hold what they read, cheaper padding.
const FITTED: [(&str, &str); 5] = [
    ("read = \"50us\"", "read = [\"40us\", \"60us\"]\nvariation = 0.3"),
    ("command_overhead", "hold_array = true\ncommand_overhead"),
    ("processors = 2", "processors = 1\nsharing = 8"),
    ("bandwidth = \"2GB\"", "bandwidth = \"500MB\""),
    ("resume = \"10us\"", "resume = \"0us\"\nvariation = 0.6"),
];

fn device(buffering: Buffering, stripe: &str, management: &str, fitted: bool) -> ZonedConfig {
    let mut text = TINY.to_owned();
    let pages = if stripe.contains("ways = 1") { 4 } else { 2 };
    text = text.replace("page = \"8KiB\"", &format!("page = \"8KiB\"\npages_per_block = {pages}"));
    if buffering != Buffering::None {
        text = text.replace("erase = \"2ms\"", "erase = \"2ms\"\nprogram_unit = \"16KiB\"");
        let protected = buffering != Buffering::Volatile;
        text += &format!("[buffer]\nsize = \"160KiB\"\npower_loss_protected = {protected}\n");
    }
    if buffering == Buffering::Areas {
        text += AREAS;
    }
    if management.contains("on-demand") {
        text = text.replace("ways = 2\n", "ways = 2\nspare_zones = 1\n");
    }
    if management.contains("erase_suspend = true") || management.contains("\"background\"") {
        text += "[suspend]\nsuspend = \"20us\"\nresume = \"10us\"\n";
    }
    text += &format!("[stripe]\nchannels = 2\nunit = \"16KiB\"\n{stripe}\n[management]\n{management}\n");
    if management.contains("reset = \"measured\"") {
        text += RESET_LAW;
    }
    if management.contains("finish = \"measured\"") {
        text += "[management.finish_law]\nbase = \"40us\"\n";
    }
    if fitted {
        for (from, to) in FITTED {
            text = text.replace(from, to);
        }
        text = text.replace("base = \"40us\"", "base = \"40us\"\njournal = { share = 0.3, time = \"1ms\" }");
        text += "[initial]\nfull_zones = [2, 1]\n";
        if buffering != Buffering::None {
            text = text.replace("program_unit =", "padding_program = \"200us\"\nprogram_unit =");
        }
    }
    toml::from_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The device of the first designs.
pub(super) fn tiny(buffering: Buffering) -> ZonedConfig {
    device(buffering, "ways = 1", "", false)
}

/// Every combination of designs that goes together, with its name; every other one
/// with the options of a fitted profile.
pub(super) fn all() -> Vec<(String, ZonedConfig)> {
    let mut all = Vec::new();
    let mut add = |buffering, stripe: &str, designs: [&str; 5]| {
        let [reset, finish, mapping, suspend, append] = designs;
        let management = format!(
            "reset = \"{reset}\"\nfinish = \"{finish}\"\nmapping = \"{mapping}\"\nerase_suspend = {suspend}\n\
             append = \"{append}\"\nfinish_chunk = \"16KiB\"\nidle_after = \"1ms\""
        );
        let fitted = all.len() % 2 == 1;
        let config = device(buffering, stripe, &management, fitted);
        if config.check().is_ok() {
            all.push((format!("{buffering:?}, {stripe}, {}, fitted={fitted}", designs.join(", ")), config));
        }
    };
    let stripes =
        ["ways = 1\norder = \"channel-first\"", "ways = 2\norder = \"way-first\"", "ways = 2\norder = \"least-busy\""];
    for buffering in BUFFERINGS {
        for stripe in stripes {
            for reset in ["full", "partial", "lazy", "background", "measured"] {
                for finish in ["blocking", "chunked", "metadata", "measured"] {
                    for mapping in ["static", "on-demand"] {
                        for suspend in ["false", "true"] {
                            for append in ["at-write-pointer", "at-zone-start"] {
                                add(buffering, stripe, [reset, finish, mapping, suspend, append]);
                            }
                        }
                    }
                }
            }
        }
    }
    all
}

/// The built-in profiles with zones of so many rows of blocks, each of one stripe
/// unit, and several namespaces.
pub(super) fn profiles() -> [(&'static str, ZonedConfig); 2] {
    let small = |text: &str, rows: u64| {
        let mut table: toml::Table = text.parse().unwrap();
        for key in ["name", "kind", "description", "sources", "expect"] {
            table.remove(key);
        }
        let mut config: ZonedConfig = table.try_into().unwrap();
        let (geometry, stripe) = (&mut config.geometry, &config.stripe);
        geometry.pages_per_block = (stripe.unit.0 / geometry.page.0) as u32;
        let row = stripe.unit.0 * u64::from(stripe.channels * stripe.ways * geometry.planes);
        config.zone.capacity = ByteSize(row * rows);
        config.zone.size = ByteSize(row * rows + row / 2);
        config.namespaces = vec![5, 3];
        config.check().unwrap();
        config
    };
    [
        ("wd-zn540", small(include_str!("../../../../../devices/wd-zn540.toml"), 1)),
        ("confznspp", small(include_str!("../../../../../devices/confznspp.toml"), 3)),
    ]
}
