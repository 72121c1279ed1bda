//! The plan of a run: what can be decided outside is decided outside.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::Path;

use ssd::profile::{DeviceConfig, Profile, builtin_text};

use crate::charge::Charges;
use crate::choice::FrontEnd;
use crate::error::LinuxError;
use crate::ordering::{SETTING, Streams, SubmissionCpus};
use crate::plan::{DevicePlan, GuestPlan, Text, artifact};
use crate::run::{Device, Linux};
use file_systems::FileSystem;

/// Less memory than this does not boot with a device in it.
const LEAST_MEMORY_BYTES: u64 = 96 << 20;
/// Each is a process inside, and a port or a ublk number.
const MOST_DEVICES: usize = 32;

/// Folders of the host that go with the run.
#[derive(Clone, Copy)]
pub(super) struct Folders<'a> {
    /// For what the run leaves.
    pub(super) run: &'a Path,
    /// For what the devices hold.
    pub(super) contents: &'a Path,
}

pub(super) fn of(run: &Linux, plumb: &Path, folders: Folders<'_>, terminal: bool) -> Result<GuestPlan, LinuxError> {
    let invalid = |message: String| LinuxError::Invalid { message };
    if run.command.is_empty() {
        return Err(invalid("nothing to run: name a command after `--`, such as `-- fio job.fio`".to_owned()));
    }
    if run.memory_bytes < LEAST_MEMORY_BYTES {
        return Err(invalid(format!("a guest needs at least {} MiB of memory", LEAST_MEMORY_BYTES >> 20)));
    }
    let described = run.devices();
    if described.len() > MOST_DEVICES {
        return Err(invalid(format!("{} devices: at most {MOST_DEVICES} at once", described.len())));
    }
    if described.len() > 1 && (run.trace || run.commands) {
        return Err(invalid("a trace joins the kernel's events with one device's: name one".to_owned()));
    }
    let devices = described.iter().enumerate();
    let devices: Vec<DevicePlan> =
        devices.map(|(place, device)| device_plan(run, place, device, folders)).collect::<Result<_, _>>()?;
    let zoned = devices.first().is_some_and(|device| device.zoned);
    check_ordering(run)?;
    if let Some(lower) = run.image_on
        && (!run.file_system.can_lie_in_a_file_of(lower) || zoned)
    {
        return Err(invalid(format!(
            "an image of {} on {lower}: one of betrfs lies on ext4, xfs, btrfs or f2fs, of a device without zones",
            run.file_system
        )));
    }
    match (run.file_system, zoned) {
        (FileSystem::Zonefs, false) => {
            return Err(invalid(format!("zonefs needs a zoned device, and {} has no zones", run.device)));
        }
        (FileSystem::Ext4 | FileSystem::Xfs | FileSystem::Betrfs, true) => {
            return Err(invalid(format!(
                "{} writes in place, and {} is a zoned device: choose btrfs, f2fs or zonefs",
                run.file_system, run.device
            )));
        }
        _ => {}
    }
    if run.file_system_is_made && (run.image.is_none() || zoned) {
        return Err(invalid("a file system that is made already needs an image, of a device without zones".to_owned()));
    }
    let mut writable = vec![Text::from(folders.run)];
    if let Some(output) = &run.output {
        fs::create_dir_all(output).map_err(LinuxError::system(format!("cannot make {}", output.display())))?;
        writable.push(Text::from(super::absolute(output)?.as_path()));
    }
    let mut direct = vec![Text::from(folders.contents)];
    for folder in described.iter().filter_map(|device| device.image.as_deref()?.parent()) {
        let folder = Text::from(super::absolute(folder)?.as_path());
        if !direct.contains(&folder) {
            direct.push(folder);
        }
    }
    let command = run.command.iter().enumerate();
    let environment = run.environment.iter().map(|(name, value)| (Text::from(&**name), Text::from(&**value)));
    Ok(GuestPlan {
        devices,
        file_system: run.file_system,
        file_system_is_made: run.file_system_is_made,
        image_on: run.image_on,
        file_system_bytes: run.file_system_bytes,
        mkfs_options: run.mkfs_options.split_whitespace().map(str::to_owned).collect(),
        mount_options: mount_options(run, folders),
        plumb: Text::from(plumb),
        command: command.map(|(place, word)| Text::from(&*resolved(&run.folder, place, word))).collect(),
        environment: environment.collect(),
        folder: Text::from(run.folder.as_path()),
        writable,
        direct,
        run_folder: Text::from(folders.run),
        charge: run.charge.is_some(),
        trace: run.trace || run.commands,
        seed: run.seed,
        terminal,
    })
}

/// What a mount with an order needs, and how many queues there can be.
fn check_ordering(run: &Linux) -> Result<(), LinuxError> {
    let invalid = |message: String| Err(LinuxError::Invalid { message });
    if let Some(cpus) = run.cpus()
        && !(1..=SubmissionCpus::MOST).contains(&cpus.count)
    {
        return invalid(format!("{} submission CPUs: 1 to {} can be", cpus.count, SubmissionCpus::MOST));
    }
    let Some(streams) = run.ordering else { return Ok(()) };
    if run.file_system != FileSystem::Ext4 {
        return invalid(format!("{streams} is an order that ext4 asks for: choose the file system ext4"));
    }
    match run.front_end {
        FrontEnd::Auto | FrontEnd::NvmeTcp => Ok(()),
        other => invalid(format!("{streams} travels in NVMe commands, and {other} has none: choose nvme-tcp")),
    }
}

/// The caller's options of mount, those of the order before them, and what a server computes behind.
fn mount_options(run: &Linux, folders: Folders<'_>) -> String {
    let order = run.ordering.map(Streams::mount_options);
    let given = (!run.mount_options.is_empty()).then(|| run.mount_options.clone());
    let costs = server_costs(run).map(|_| format!("computing={}", folders.run.join(artifact::COSTS).display()));
    order.into_iter().chain(given).chain(costs).collect::<Vec<_>>().join(",")
}

/// The costs that the file system's server reads, where it is to pay for what it computes.
pub(super) fn server_costs(run: &Linux) -> Option<&Charges> {
    run.charge.as_ref().filter(|charges| run.file_system.is_served() && charges.plumb_fs.is_some())
}

fn device_plan(run: &Linux, place: usize, device: &Device, folders: Folders<'_>) -> Result<DevicePlan, LinuxError> {
    let zoned = run.front_end != FrontEnd::NullBlk && zoned(&device.profile, &run.folder)?;
    let front_end = match run.front_end {
        FrontEnd::Auto if zoned || run.ordering.is_some() || run.commands => FrontEnd::NvmeTcp,
        FrontEnd::Auto => FrontEnd::Ublk,
        front_end => front_end,
    };
    if zoned && front_end == FrontEnd::Loop {
        return Err(LinuxError::Invalid {
            message: format!(
                "{} is a zoned device, and {front_end} has no words for zones: choose ublk or nvme-tcp",
                device.profile
            ),
        });
    }
    if run.commands && front_end != FrontEnd::NvmeTcp {
        return Err(LinuxError::Invalid {
            message: format!(
                "writes are set beside the device's as NVMe commands, and {front_end} has none: choose nvme-tcp"
            ),
        });
    }
    if place > 0 && front_end == FrontEnd::NullBlk {
        return Err(LinuxError::Invalid { message: "there is one null-blk device and no second".to_owned() });
    }
    let io_queues = run.cpus().map_or(1, |cpus| cpus.count);
    Ok(DevicePlan { front_end, io_queues, zoned, serve: serve_arguments(run, place, device, folders) })
}

/// Whether the profile called `device` describes a zoned device.
fn zoned(device: &str, folder: &Path) -> Result<bool, LinuxError> {
    let invalid = |error: &dyn std::error::Error| LinuxError::Invalid { message: error.to_string() };
    let (file, text) = if device.ends_with(".toml") {
        let path = folder.join(device);
        let text = fs::read_to_string(&path).map_err(LinuxError::system(format!("cannot read {}", path.display())))?;
        (path.display().to_string(), text)
    } else {
        let text = builtin_text(device).map_err(|error| invalid(&error))?;
        (format!("devices/{device}.toml"), text.to_owned())
    };
    let profile = Profile::from_toml(&file, &text).map_err(|error| invalid(&error))?;
    Ok(matches!(profile.config, DeviceConfig::Zoned(_)))
}

fn serve_arguments(run: &Linux, place: usize, device: &Device, folders: Folders<'_>) -> Vec<Text> {
    let profile = if device.profile.ends_with(".toml") {
        run.folder.join(&device.profile).into_os_string()
    } else {
        OsString::from(&device.profile)
    };
    let mut arguments = vec![OsString::from("--device"), profile];
    if place == 0 && run.ordering.is_some() {
        // Before the caller's, which may be another: what a device without order does is worth a look.
        arguments.extend(["--set".into(), SETTING.into()]);
    }
    for setting in &device.settings {
        arguments.extend(["--set".into(), setting.into()]);
    }
    match &device.image {
        Some(image) => arguments.extend(["--image".into(), image.clone().into_os_string()]),
        None => arguments.extend(["--scratch".into(), folders.contents.join(place.to_string()).into_os_string()]),
    }
    if place == 0 {
        if run.trace {
            arguments.extend(["--trace".into(), folders.run.join(artifact::DEVICE_TRACE).into_os_string()]);
        }
        if run.commands {
            let log = folders.run.join(artifact::DEVICE_COMMANDS);
            arguments.extend(["--command-log".into(), log.into_os_string()]);
        }
        arguments.extend(run.serve_arguments.iter().cloned());
    }
    arguments.iter().map(|argument| Text::from(&**argument)).collect()
}

/// A word of the command: an existing file of the caller's folder by its absolute path, since the command
/// starts in another folder. A program is only meant where it has a slash.
fn resolved(folder: &Path, place: usize, word: &OsStr) -> OsString {
    let is_program_name = place == 0 && !word.as_encoded_bytes().contains(&b'/');
    if word.is_empty() || word.as_encoded_bytes().starts_with(b"-") || is_program_name {
        return word.to_owned();
    }
    let path = folder.join(word);
    if path.is_file() { path.into_os_string() } else { word.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_the_folder_become_absolute() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        fs::write(path.join("job.fio"), "").unwrap();
        fs::write(path.join("fio"), "").unwrap();
        fs::create_dir(path.join("repository")).unwrap();
        let of = |place, word: &str| resolved(path, place, OsStr::new(word));
        assert_eq!(of(1, "job.fio"), path.join("job.fio"));
        assert_eq!(of(0, "fio"), "fio");
        assert_eq!(of(0, "./fio"), path.join("./fio"));
        for word in ["absent", "repository", "-job.fio", ""] {
            assert_eq!(of(1, word), word);
        }
    }

    fn folders() -> Folders<'static> {
        Folders { run: Path::new("/run/x"), contents: Path::new("/run/y") }
    }

    #[test]
    fn a_server_is_told_of_costs_that_it_has() {
        let mut run = Linux::new("/bin/true", "samsung-980pro-1tb");
        (run.file_system, run.mount_options) = (FileSystem::Betrfs, "noatime".into());
        let options = |run: &Linux| mount_options(run, folders());
        assert_eq!(options(&run), "noatime");
        run.charge = Some(Charges::least());
        assert_eq!(options(&run), "noatime");
        run.charge = Some(Charges { plumb_fs: Some(units::ServerCosts::default()), ..Charges::least() });
        assert_eq!(options(&run), "noatime,computing=/run/x/costs.toml");
        run.file_system = FileSystem::Ext4;
        assert_eq!(options(&run), "noatime");
    }

    #[test]
    fn an_image_is_of_what_is_served_and_lies_on_what_is_not() {
        let plan = |file_system, lower| {
            let mut run = Linux::new("/bin/true", "samsung-980pro-1tb");
            (run.file_system, run.image_on) = (file_system, Some(lower));
            of(&run.command(["true"]), Path::new("/bin/true"), folders(), false)
        };
        let planned = plan(FileSystem::Betrfs, FileSystem::Xfs).unwrap();
        assert_eq!(planned.image_on, Some(FileSystem::Xfs));
        for (file_system, lower) in [
            (FileSystem::Ext4, FileSystem::Xfs),
            (FileSystem::Betrfs, FileSystem::Betrfs),
            (FileSystem::Betrfs, FileSystem::None),
            (FileSystem::Betrfs, FileSystem::Zonefs),
        ] {
            let why = plan(file_system, lower).unwrap_err().to_string();
            assert!(why.contains(&format!("an image of {file_system} on {lower}")), "{why}");
        }
    }

    #[test]
    fn an_order_makes_queues_and_options() {
        let mut run = Linux::new("/bin/true", "samsung-980pro-1tb");
        let planned = |run: &Linux| of(&run.command(["true"]), Path::new("/bin/true"), folders(), false).unwrap();
        (run.file_system, run.mount_options) = (FileSystem::Ext4, "noatime".into());
        let plain = planned(&run);
        assert_eq!((plain.mount_options.as_str(), plain.devices[0].io_queues), ("noatime", 1));
        assert_eq!(plain.devices[0].front_end, FrontEnd::Ublk);

        run.ordering = Some("streams:one,pinned".parse().unwrap());
        run.settings = vec!["order=\"ignored\"".into()];
        let ordered = planned(&run);
        assert_eq!(ordered.mount_options, "order=one,order_epochs=pinned,noatime");
        assert_eq!((ordered.devices[0].front_end, ordered.devices[0].io_queues), (FrontEnd::NvmeTcp, 4));
        let words: Vec<OsString> = ordered.devices[0].serve.iter().map(OsString::from).collect();
        let place = |word: &str| words.iter().position(|given| given == word).unwrap();
        assert!(place(SETTING) < place("order=\"ignored\""), "the caller has the last word");

        run.submission_cpus = Some(SubmissionCpus { count: 0, migrate_every: None });
        let refused = of(&run.command(["true"]), Path::new("/bin/true"), folders(), false).unwrap_err();
        assert!(refused.to_string().contains("1 to 256"), "{refused}");
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        let zoned = "wd-zn540";
        let plan = |device: &str, front_end, file_system| {
            let mut run = Linux::new("/bin/true", device);
            (run.front_end, run.file_system) = (front_end, file_system);
            of(&run.command(["true"]), Path::new("/bin/true"), folders(), false)
        };
        let refused = |result: Result<GuestPlan, LinuxError>| result.unwrap_err().to_string();
        assert!(refused(plan(zoned, FrontEnd::Auto, FileSystem::Ext4)).contains("writes in place"));
        assert!(refused(plan(zoned, FrontEnd::Loop, FileSystem::None)).contains("no words for zones"));
        assert!(
            refused(plan("samsung-980pro-1tb", FrontEnd::Auto, FileSystem::Zonefs)).contains("needs a zoned device")
        );
        assert!(refused(plan("absent", FrontEnd::Auto, FileSystem::None)).contains("absent"));
        assert!(
            refused(of(&Linux::new("/bin/true", zoned), Path::new("/bin/true"), folders(), false))
                .contains("nothing to run")
        );
        let ordered = |front_end, file_system| {
            let mut run = Linux::new("/bin/true", "samsung-980pro-1tb");
            (run.front_end, run.file_system, run.ordering) = (front_end, file_system, Some(Streams::default()));
            of(&run.command(["true"]), Path::new("/bin/true"), folders(), false)
        };
        assert!(refused(ordered(FrontEnd::Auto, FileSystem::Xfs)).contains("choose the file system ext4"));
        assert!(refused(ordered(FrontEnd::Ublk, FileSystem::Ext4)).contains("choose nvme-tcp"));
        let compared = |front_end| {
            let mut run = Linux::new("/bin/true", "samsung-980pro-1tb");
            (run.front_end, run.commands) = (front_end, true);
            of(&run.command(["true"]), Path::new("/bin/true"), folders(), false)
        };
        assert!(refused(compared(FrontEnd::Ublk)).contains("choose nvme-tcp"));
        let compared = compared(FrontEnd::Auto).unwrap();
        assert_eq!((compared.devices[0].front_end, compared.trace), (FrontEnd::NvmeTcp, true));
        let plan = plan(zoned, FrontEnd::Auto, FileSystem::F2fs).unwrap();
        assert_eq!((plan.devices[0].front_end, plan.devices[0].zoned), (FrontEnd::NvmeTcp, true));
    }
}
