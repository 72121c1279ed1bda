//! What a zoned profile is refused for, and that the message says how to repair it.

use crate::common::changed_profile;
use ssd::profile::BuildOptions;

/// Tables that a design needs, where the profile has none.
const SUSPEND: &str = "suspend = { suspend = '10us', resume = '5us' }\n";
const LAW: &str = "management.reset_law = { base = '1ms', written = '10ms' }\n";

/// (profile, changes, key in the message, remedy in the message).
const REFUSED: &[(&str, &str, &str, &str)] = &[
    // Zones.
    ("wd-zn540", "zone.size = '2000000'", "zone.size", "is not a multiple of `lba`"),
    ("wd-zn540", "zone.capacity = '3GiB'", "zone.capacity", "at most `zone.size` (2GiB)"),
    ("wd-zn540", "zone.capacity = '1076MiB'", "zone.capacity", "not a multiple of a row of blocks"),
    ("wd-zn540", "zone.size = '0B'", "zone.size", "give at least 1"),
    ("wd-zn540", "zone.max_active = 13", "zone.max_active", "at least `zone.max_open` (14)"),
    ("confznspp", "zone.max_active = 13", "zone.max_active", "at least `zone.max_open` (no limit)"),
    ("wd-zn540", "zone.max_open = 0", "zone.max_open", "give at least 1"),
    ("wd-zn540", "zone.append_limit = '2MiB'", "zone.append_limit", "up to `max_transfer`"),
    ("wd-zn540", "zone.descriptor_extension = '100B'", "zone.descriptor_extension", "a multiple of 64B"),
    ("confznspp", "zone.zrwa = { size = '1MiB', granularity = '16KiB', zones = 4 }", "zone.zrwa", "add `[buffer]`"),
    (
        "wd-zn540",
        "zone.zrwa = { size = '1MiB', granularity = '3MiB', zones = 4 }",
        "zone.zrwa.size",
        "not a multiple of `zone.zrwa.granularity`",
    ),
    ("wd-zn540", "namespaces = []", "namespaces", "give at least 1"),
    ("wd-zn540", "namespaces = [900, 0]", "namespaces", "give at least 1"),
    // Flash.
    ("wd-zn540", "lba = '1KiB'", "lba", "512 or 4KiB"),
    ("wd-zn540", "stripe.channels = 16", "stripe.channels", "at most `geometry.channels` (8)"),
    ("wd-zn540", "stripe.ways = 3", "stripe.ways", "a divisor of `geometry.ways` (4)"),
    ("wd-zn540", "stripe.unit = '100KiB'", "stripe.unit", "not a multiple of the program unit (96KiB)"),
    ("wd-zn540", "cell.program_unit = '40KiB'", "cell.program_unit", "not a multiple of `geometry.page`"),
    ("wd-zn540", "geometry.pages_per_block = 2155", "geometry.pages_per_block", "not a multiple of `stripe.unit`"),
    ("wd-zn540", "geometry.channels = 0", "geometry.channels", "give at least 1"),
    ("wd-zn540", "cell.read = []", "cell.read", "1 to 4 times"),
    ("wd-zn540", "cell.variation = 1.5", "cell.variation", "0 to 1"),
    ("wd-zn540", "controller.variation = -0.5", "controller.variation", "0 to 1"),
    ("confznspp", "channel.hold_array = true", "channel.hold_array", "set `channel.booking = \"when-ready\"`"),
    ("wd-zn540", "geometry.spare_zones = 2", "geometry.spare_zones", "set `management.mapping = \"on-demand\"`"),
    ("wd-zn540", "initial.full_zones = [905]", "initial.full_zones", "at most as many zones"),
    ("wd-zn540", "initial.full_zones = [1, 1]", "initial.full_zones", "at most as many zones"),
    // Buffer.
    ("wd-zn540", "buffer.size = '960KiB'", "buffer.size", "a program unit for each active zone"),
    ("wd-zn540", "buffer.size = '6000000'", "buffer.size", "not a multiple of the program unit"),
    ("confznspp", "buffer.size = '16MiB'", "zone.max_active", "set it, or remove `[buffer]`"),
    // Designs.
    ("confznspp", "management.reset = 'lazy'", "management.reset", "set `management.mapping = \"on-demand\"`"),
    (
        "confznspp",
        "management = { reset = 'lazy', mapping = 'on-demand', erase_suspend = true }\n",
        "management.erase_suspend",
        "remove it, or choose another reset",
    ),
    ("confznspp", "management.erase_suspend = true", "management.erase_suspend", "add `[suspend]`"),
    ("confznspp", "management.reset = 'background'", "management.reset", "add `[suspend]`"),
    ("confznspp", "management.reset = 'measured'", "management.reset", "add `[management.reset_law]`"),
    ("wd-zn540", "management.erase_suspend = true", "management.erase_suspend", "choose another reset"),
    ("wd-zn540", "management.append = 'at-zone-start'", "management.append", "remove `[buffer]`"),
    ("confznspp", "management.finish = 'measured'", "management.finish", "add `[buffer]`, or choose `\"chunked\"`"),
    ("confznspp", "management.finish_chunk = '20KiB'", "management.finish_chunk", "not a multiple of `geometry.page`"),
    ("confznspp", "stripe.order = 'least-busy'", "stripe.order", "or add `[buffer]`"),
];

#[test]
fn what_describes_no_device_is_refused_with_the_remedy() {
    for (profile, changes, key, remedy) in REFUSED {
        match changed_profile(profile, changes) {
            Ok(_) => panic!("{profile} with {changes} was accepted"),
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains(&format!("`{key}`")) && text.contains(remedy), "{changes}: {text}");
            }
        }
    }
}

#[test]
fn unknown_designs_are_refused_with_those_there_are() {
    for (changes, known) in [
        ("management.reset = 'lazzy'", "did you mean `lazy`?"),
        ("management.finish = 'chunks'", "did you mean `chunked`?"),
        ("management.mapping = 'dynamic'", "on-demand"),
        ("management.resets = 'full'", "did you mean `reset`?"),
        ("stripe.order = 'channels'", "channel-first"),
    ] {
        let text = changed_profile("confznspp", changes).unwrap_err().to_string();
        assert!(text.contains(known), "{changes}: {text}");
    }
}

#[test]
fn every_combination_that_the_table_allows_is_a_device() {
    let mut devices = 0;
    for (profile, buffered) in [("wd-zn540", true), ("confznspp", false)] {
        for reset in ["full", "partial", "lazy", "background", "measured"] {
            for mapping in ["static", "on-demand"] {
                for finish in ["blocking", "chunked", "metadata", "measured"] {
                    for suspend in [false, true] {
                        let needs_map = reset == "lazy" && mapping == "static";
                        let no_suspend = suspend && (reset == "lazy" || reset == "measured");
                        let no_buffer = finish == "measured" && !buffered;
                        let tables = if buffered { String::new() } else { format!("{SUSPEND}{LAW}") };
                        let changes = format!(
                            "{tables}management.reset = '{reset}'\nmanagement.mapping = '{mapping}'\n\
                             management.finish = '{finish}'\nmanagement.erase_suspend = {suspend}\n"
                        );
                        let result = changed_profile(profile, &changes);
                        let allowed = !(needs_map || no_suspend || no_buffer);
                        assert_eq!(result.is_ok(), allowed, "{profile}\n{changes}{:?}", result.err());
                        if allowed {
                            result.unwrap().build(&BuildOptions::default()).unwrap();
                            devices += 1;
                        }
                    }
                }
            }
        }
    }
    assert!(devices > 60, "{devices}");
}
