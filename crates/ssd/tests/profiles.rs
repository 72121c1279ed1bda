//! The built-in profiles: complete, sourced, and true to their sources.

use nvme::{Command, CommandId, Lba, LbaRange, NamespaceId, QueueId};
use ssd::profile::{BuildOptions, Profile, ProfileError, builtin_names, builtin_text, check};
use ssd::{Contents, Device, Submission};
use trace::RequestId;
use units::Nanos;

#[test]
fn every_file_is_a_built_in_profile_of_its_own_name() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../devices");
    let mut files: Vec<String> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    let mut names: Vec<&str> = builtin_names().collect();
    files.sort_unstable();
    names.sort_unstable();
    assert_eq!(files, names);
    for name in names {
        let profile = Profile::builtin(name).unwrap();
        assert_eq!(profile.name, name);
        assert!(!profile.description.is_empty() && !profile.model().is_empty());
    }
}

#[test]
fn no_parameter_is_without_a_source() {
    for name in builtin_names() {
        let profile = Profile::builtin(name).unwrap();
        let unsourced: Vec<&str> = profile.unsourced().collect();
        assert!(unsourced.is_empty(), "{name}: no source for {unsourced:?}");
        assert!(profile.sources.values().all(|source| source.len() > 5), "{name}");
        assert!(profile.expectations.len() >= 4, "{name} has {} expectations", profile.expectations.len());
    }
}

fn holds(name: &str) {
    let checked = check(&Profile::builtin(name).unwrap()).unwrap();
    let report: String = checked.iter().map(|checked| format!("{checked}\n")).collect();
    println!("{name}\n{report}");
    assert!(checked.iter().all(|checked| checked.within), "{name}\n{report}");
}

macro_rules! holds_against_its_sources {
    ($($test:ident: $name:literal,)*) => {
        $(
            #[test]
            fn $test() {
                holds($name);
            }
        )*

        #[test]
        fn every_profile_is_held_against_its_sources() {
            assert_eq!(builtin_names().collect::<Vec<_>>(), [$($name),*]);
        }
    };
}

holds_against_its_sources! {
    samsung_980pro: "samsung-980pro-1tb",
    samsung_pm983: "samsung-pm983-1920gb",
    optane_905p: "optane-905p-960gb",
    samsung_860evo: "samsung-860evo-250gb",
    samsung_850pro: "samsung-850pro-256gb",
    intel_s3500: "intel-s3500-480gb",
    hdd_7200: "hdd-7200-1tb",
    microsd_evo: "microsd-evo-128gb",
    wd_zn540: "wd-zn540",
    confznspp: "confznspp",
}

fn complaint(name: &str, from: &str, to: &str) -> (String, usize) {
    let text = builtin_text(name).unwrap();
    assert!(text.contains(from), "{name} has no {from}");
    let broken = text.replacen(from, to, 1);
    let line = broken.lines().position(|line| line.contains(to.lines().last().unwrap())).unwrap() + 1;
    match Profile::from_toml("my.toml", &broken) {
        Err(error) => (error.to_string(), line),
        Ok(_) => panic!("accepted {to}"),
    }
}

#[test]
fn a_broken_profile_is_named_by_file_line_and_key_with_the_remedy() {
    let disk = "hdd-7200-1tb";
    for (name, from, to, wanted) in [
        (disk, "heads = 2", "haeds = 2", "did you mean `heads`?"),
        (disk, "rpm = 7200", "rpm = \"fast\"", "`geometry.rpm`"),
        (disk, "average = \"8.5ms\"", "average = \"8.5 parsecs\"", "`seek.average`: `8.5 parsecs` is not a time"),
        (disk, "rpm = 7200", "rpm = 7", "`geometry.rpm` is 7; it must be 60 to 60000"),
        (disk, "full_stroke = \"17ms\"", "full_stroke = \"99ms\"", "`seek.full_stroke` is 99ms; it must be"),
        (disk, "scheduler = \"shortest-positioning\"", "scheduler = \"elevater\"", "did you mean `elevator`?"),
        (disk, "geometry.heads = ", "geometry.haeds = ", "did you mean `geometry.heads`?"),
        (disk, "kind = \"disk\"", "kind = \"dsik\"", "did you mean `disk`?"),
        (disk, "statistic = \"mean-latency\"", "statistic = \"mean\"", "known here: mean-latency"),
        ("samsung-980pro-1tb", "channels = 8", "chanels = 8", "did you mean `channels`?"),
        ("samsung-980pro-1tb", "page = \"16KiB\"", "page = \"17KiB\"", "`geometry.page`"),
        ("microsd-evo-128gb", "open_units = 6", "open_units = 0", "`mapping.open_units` is 0"),
    ] {
        let (text, line) = complaint(name, from, to);
        assert!(text.contains(wanted), "{to}: {text}");
        // A key written wrong is a missing one, too: two faults.
        assert!(text.contains(&format!("my.toml:{line}: ")), "{to} is in line {line}: {text}");
    }
    let (text, _) = complaint(disk, "[seek]", "[unknown]");
    assert!(text.contains("unknown key `unknown`"), "{text}");
    let (text, _) = complaint(disk, "heads = 2\n", "\n");
    assert!(text.contains("`heads` is missing in `geometry`"), "{text}");
    let (text, _) = complaint(disk, "kind = \"disk\"\n", "\n");
    assert!(text.contains("`kind` is missing"), "{text}");
    let (text, line) = complaint(disk, "heads = 2", "heads == 2");
    assert!(text.starts_with(&format!("my.toml:{line}: not TOML")), "{text}");
}

#[test]
fn overrides_go_through_a_table() {
    let mut table: toml::Table = builtin_text("hdd-7200-1tb").unwrap().parse().unwrap();
    table["geometry"]["rpm"] = toml::Value::Integer(5400);
    let profile = Profile::from_table("hdd-7200-1tb", &table).unwrap();
    assert_ne!(profile.config, Profile::builtin("hdd-7200-1tb").unwrap().config);
    table["geometry"]["rpm"] = toml::Value::Integer(0);
    let error = Profile::from_table("hdd-7200-1tb", &table).unwrap_err().to_string();
    assert!(error.starts_with("hdd-7200-1tb: `geometry.rpm` is 0"), "{error}");
}

#[test]
fn unknown_names_and_paths_are_told_with_the_nearest() {
    let error = Profile::builtin("samsung-980-pro").unwrap_err();
    assert!(
        matches!(&error, ProfileError::Unknown { nearest: Some(name), .. } if name == "samsung-980pro-1tb"),
        "{error}"
    );
    let error = Profile::load(std::path::Path::new("/no/such.toml")).unwrap_err().to_string();
    assert!(error.contains("/no/such.toml"), "{error}");
}

fn run(device: &mut dyn Device, now: &mut Nanos, command: Command, data: Option<Box<[u8]>>) -> Option<Box<[u8]>> {
    device.submit(*now, Submission { queue: QueueId(1), cid: CommandId(1), command, data, request: RequestId(0) });
    let mut completions = Vec::new();
    while completions.is_empty() {
        *now = (*now).max(device.next_event().unwrap());
        device.advance(*now, &mut completions);
    }
    assert!(completions[0].status.is_success());
    completions.remove(0).data
}

#[test]
fn every_device_returns_what_was_written_and_keeps_what_was_flushed() {
    let nsid = NamespaceId::FIRST;
    let directory = tempfile::tempdir().unwrap();
    for name in builtin_names() {
        let profile = Profile::builtin(name).unwrap();
        let options = BuildOptions { contents: Contents::File(directory.path().join(name)), ..BuildOptions::default() };
        let mut device = profile.build(&options).unwrap();
        if device.identity().zoned.is_some() {
            // Zones are written in order, and their state is not in the image.
            continue;
        }
        let lba_bytes = device.identity().lba_bytes as usize;
        let range = |start| LbaRange { start: Lba(start), count: 8 };
        let write = |start| Command::write(nsid, range(start), false);
        let mut now = Nanos::ZERO;
        run(device.as_mut(), &mut now, write(64), Some(vec![1; 8 * lba_bytes].into()));
        run(device.as_mut(), &mut now, Command::Flush { nsid }, None);
        run(device.as_mut(), &mut now, write(68), Some(vec![2; 8 * lba_bytes].into()));
        let read = Command::Read { nsid, range: range(64), fua: false };
        let seen = run(device.as_mut(), &mut now, read, None).unwrap();
        assert!(seen[..4 * lba_bytes].iter().all(|byte| *byte == 1), "{name}");
        assert!(seen[4 * lba_bytes..].iter().all(|byte| *byte == 2), "{name}");
        // The process dies: what was flushed is in the image.
        drop(device);
        let mut device = profile.build(&options).unwrap();
        let read = Command::Read { nsid, range: range(64), fua: false };
        let seen = run(device.as_mut(), &mut now, read, None).unwrap();
        assert!(seen[..4 * lba_bytes].iter().all(|byte| *byte == 1), "{name} lost flushed data");
    }
}
