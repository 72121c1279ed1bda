//! Profiles as text: printed whole and read back, and every fault named at once.

use proptest::prelude::*;
use ssd::profile::{BuildOptions, Profile, builtin_names, builtin_text};

#[test]
fn every_profile_reads_back_as_it_was_printed() {
    for name in builtin_names() {
        let profile = Profile::builtin(name).unwrap();
        let text = profile.to_toml().unwrap();
        let back = Profile::from_toml("printed.toml", &text).unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
        assert_eq!(back.config, profile.config, "{name}");
        assert_eq!(back.name, profile.name);
        assert_eq!(back.description, profile.description, "{name}");
        assert_eq!(back.sources, profile.sources, "{name}");
        assert_eq!(back.expectations, profile.expectations, "{name}");
        // Nothing is left to a default.
        assert_eq!(back.to_toml().unwrap(), text, "{name}");
        for given in profile.parameters() {
            assert!(back.parameters().contains(given), "{name}: {given} is missing in\n{text}");
        }
    }
    let text = Profile::builtin("samsung-980pro-1tb").unwrap().to_toml().unwrap();
    for line in
        ["read = [\"45us\"]", "mapping_unit = \"4KiB\"", "bandwidth = \"7GB\"", "duplex = \"full\"", "start_below = 4"]
    {
        assert!(text.contains(line), "no {line} in\n{text}");
    }
}

#[test]
fn every_missing_unknown_and_wrong_key_is_named_at_once() {
    let mut text = builtin_text("samsung-980pro-1tb").unwrap().to_owned();
    for (from, to) in [
        ("name = \"samsung-980pro-1tb\"", "nmae = \"x\""),
        ("channels = 8", "chanels = 8"),
        ("bits = 3\n", "\n"),
        ("erase = \"3.5ms\"", "erase = \"3.5 parsecs\""),
        ("processors = 5", "processors = \"five\""),
        ("[link]\nbandwidth = \"7GB\"\n", "[link]\nbandwith = \"7GB\"\n"),
        ("queue_depth = 1023", "queue_depth = 1e3"),
        ("statistic = \"mean-latency\"", "statistic = \"mean-latancy\""),
    ] {
        assert!(text.contains(from), "{from}");
        text = text.replacen(from, to, 1);
    }
    let line = |part: &str| text.lines().position(|line| line.contains(part)).unwrap() + 1;
    let error = Profile::from_toml("my.toml", &text).unwrap_err().to_string();
    for (part, said) in [
        ("nmae", "unknown key `nmae`"),
        ("chanels", "unknown key `chanels`; did you mean `channels`?"),
        ("parsecs", "`cell.erase`: `3.5 parsecs` is not a time"),
        ("five", "`controller.processors`"),
        ("bandwith", "unknown key `bandwith`; did you mean `bandwidth`?"),
        ("1e3", "`link.queue_depth`"),
        ("latancy", "unknown value `mean-latancy`; did you mean `mean-latency`?"),
    ] {
        assert!(error.contains(&format!("my.toml:{}: {said}", line(part))), "{said}, line {}:\n{error}", line(part));
    }
    for said in
        ["`name` is missing at the top level", "`channels` is missing in `geometry`", "`bits` is missing in `cell`"]
    {
        assert!(error.contains(said), "{said}:\n{error}");
    }
    assert!(error.starts_with("my.toml: 11 faults"), "{error}");
}

#[test]
fn a_profile_of_nothing_names_all_it_needs() {
    for (kind, needs) in [
        ("ssd", &["model", "geometry", "channels", "cell", "read", "link", "queues", "buffer", "size"][..]),
        ("disk", &["capacity", "rpm", "seek", "track_to_track", "scheduler", "queue_depth"]),
        ("card", &["flash", "stripe", "mapping", "open_units", "bus"]),
        ("zoned", &["namespaces", "zone", "stripe", "ways", "controller"]),
    ] {
        let error = Profile::from_toml("new.toml", &format!("kind = \"{kind}\"")).unwrap_err().to_string();
        for key in needs {
            assert!(error.contains(&format!("`{key}` is missing")), "{kind}: no {key} in {error}");
        }
        assert!(error.contains("`name` is missing"), "{error}");
    }
    let error = Profile::from_toml("new.toml", "").unwrap_err().to_string();
    assert!(error.contains("`name` is missing") && error.contains("`kind` is missing"), "{error}");
}

#[test]
fn line_ends_and_byte_order_marks_change_nothing() {
    for name in builtin_names() {
        let text = builtin_text(name).unwrap();
        let plain = Profile::from_toml("a.toml", text).unwrap();
        assert_eq!(Profile::from_toml("a.toml", &text.replace('\n', "\r\n")).unwrap().config, plain.config);
        assert_eq!(Profile::from_toml("a.toml", &format!("\u{feff}{text}")).unwrap().config, plain.config);
    }
    let twice = builtin_text("hdd-7200-1tb").unwrap().replacen("heads = 2", "heads = 2\nheads = 3", 1);
    let error = Profile::from_toml("a.toml", &twice).unwrap_err().to_string();
    let line = twice.lines().position(|line| line == "heads = 3").unwrap() + 1;
    assert!(error.starts_with(&format!("a.toml:{line}: not TOML: duplicate key")), "{error}");
}

#[test]
fn files_that_are_no_profiles_end_soon() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.toml");
    std::fs::write(&path, vec![0xa5; 5000]).unwrap();
    let error = Profile::load(&path).unwrap_err().to_string();
    assert!(error.contains("x.toml"), "{error}");
    let error = Profile::load(std::path::Path::new("/dev/zero")).unwrap_err().to_string();
    assert!(error.contains("longer than"), "{error}");
    let error = Profile::load(folder.path()).unwrap_err().to_string();
    assert!(error.contains("cannot read"), "{error}");
    let many: String = (0..5000).map(|index| format!("k{index} = 1\n")).collect();
    let error = Profile::from_toml("x.toml", &format!("name = 'x'\nkind = 'disk'\n{many}")).unwrap_err().to_string();
    assert!(error.contains("x.toml: 100 faults"), "{error}");
}

/// Values of every kind that a careless or a hostile hand writes.
fn value() -> impl Strategy<Value = toml::Value> {
    let texts = [
        "",
        "0",
        "0ns",
        "1ns",
        "-1us",
        "1",
        "1B",
        "513",
        "3KiB",
        "4097",
        "16KiB",
        "1e9s",
        "NaN",
        "inf",
        "1GiB",
        "1TB",
        "9223372036854775807",
        "18446744073709551615",
        "16777215TiB",
        "99999999999h",
        "45",
        "45 us",
        "four",
        "512",
        "4KiB",
    ];
    prop_oneof![
        proptest::sample::select(texts.to_vec()).prop_map(|text| toml::Value::String(text.to_owned())),
        prop_oneof![
            Just(0),
            Just(1),
            Just(-1),
            Just(3),
            Just(65535),
            Just(65536),
            Just(i64::from(u32::MAX)),
            Just(i64::MAX),
            Just(i64::MIN)
        ]
        .prop_map(toml::Value::Integer),
        prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(-0.5), Just(0.0), Just(1e-300), Just(1e300), Just(0.5)]
            .prop_map(toml::Value::Float),
        any::<bool>().prop_map(toml::Value::Boolean),
        Just(toml::Value::Array(Vec::new())),
        Just(toml::Value::Table(toml::Table::new())),
        proptest::collection::vec(proptest::sample::select(vec!["0ns", "1us", "1TB", "99999h"]), 0..5)
            .prop_map(|items| toml::Value::Array(items.into_iter().map(toml::Value::from).collect())),
    ]
}

fn keys(table: &toml::Table, path: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    for (key, value) in table {
        path.push(key.clone());
        if path[0] != "sources" && path[0] != "expect" {
            found.push(path.clone());
            if let toml::Value::Table(inner) = value {
                keys(inner, path, found);
            }
        }
        path.pop();
    }
}

fn set(table: &mut toml::Table, path: &[String], value: toml::Value) {
    match path {
        [last] => drop(table.insert(last.clone(), value)),
        [first, rest @ ..] => {
            if let Some(toml::Value::Table(inner)) = table.get_mut(first) {
                set(inner, rest, value);
            }
        }
        [] => {}
    }
}

/// A count that no device has is an error, and no table of that many things.
#[test]
fn the_greatest_count_at_any_key_is_a_device_or_a_clear_error() {
    for name in builtin_names() {
        let mut whole = Profile::builtin(name).unwrap().document().unwrap();
        whole.remove("sources");
        whole.remove("expect");
        let mut all = Vec::new();
        keys(&whole, &mut Vec::new(), &mut all);
        for key in all {
            let mut table = whole.clone();
            set(&mut table, &key, i64::from(u32::MAX).into());
            if let Ok(profile) = Profile::from_table("x.toml", &table)
                && capacity(&profile) <= 1 << 41
            {
                let _ = profile.build(&BuildOptions::default());
            }
        }
    }
}

/// Found by the property test below: its blocks took twenty gigabytes.
#[test]
fn a_drive_of_very_many_blocks_is_refused() {
    let mut table = Profile::builtin("optane-905p-960gb").unwrap().document().unwrap();
    set(&mut table, &["geometry".into(), "pages_per_block".into()], 3.into());
    let said = Profile::from_table("x.toml", &table).unwrap_err().to_string();
    assert!(said.contains("geometry.pages_per_block") && said.contains("16777216 blocks"), "{said}");
}

/// Cases of the property tests.
fn cases(quick: u32) -> ProptestConfig {
    let long = std::env::var_os("PLUMB_LONG").is_some();
    ProptestConfig {
        cases: if long { quick * 50 } else { quick },
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn any_value_at_any_key_is_a_device_or_a_clear_error(
        name in proptest::sample::select(builtin_names().collect::<Vec<_>>()),
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), value()), 1..4),
    ) {
        let mut table = Profile::builtin(name).unwrap().document().unwrap();
        table.remove("sources");
        table.remove("expect");
        let mut all = Vec::new();
        keys(&table, &mut Vec::new(), &mut all);
        for (index, value) in changes {
            set(&mut table, &all[index.index(all.len())], value);
        }
        match Profile::from_table("x.toml", &table) {
            Err(error) => prop_assert!(error.to_string().starts_with("x.toml"), "{error}"),
            // A large one takes memory for its maps: what is checked is that small ones start.
            Ok(profile) if capacity(&profile) <= 1 << 41 => {
                let built = profile.build(&BuildOptions::default());
                prop_assert!(built.is_ok() || !built.err().unwrap().to_string().is_empty());
            }
            Ok(_) => {}
        }
    }

    #[test]
    fn any_bytes_are_an_answer(text in "[ -~\n\r\t\u{feff}é]{0,300}", cut in any::<proptest::sample::Index>()) {
        let _ = Profile::from_toml("x.toml", &text);
        let whole = builtin_text("samsung-980pro-1tb").unwrap();
        let at = cut.index(whole.len());
        let _ = Profile::from_toml("x.toml", &format!("{}{text}{}", &whole[..at], &whole[at..]));
    }
}

fn capacity(profile: &Profile) -> u64 {
    let table = profile.document().unwrap();
    let bytes = |value: &toml::Value| {
        value.as_str().and_then(|text| text.parse::<units::ByteSize>().ok()).map_or(0, |size| size.0)
    };
    match table.get("capacity") {
        Some(capacity) => bytes(capacity),
        None => {
            table["namespaces"].as_array().map_or(u64::MAX, |all| all.iter().map(bytes).fold(0, u64::saturating_add))
        }
    }
}
