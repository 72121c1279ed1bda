//! The plan of a run: what can be decided outside is decided outside.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::Path;

use ssd::profile::{DeviceConfig, Profile, builtin_text};

use crate::choice::{FileSystem, FrontEnd};
use crate::error::LinuxError;
use crate::plan::{Plan, Text, artifact};
use crate::run::Linux;

/// Less memory than this does not boot with a device in it.
const LEAST_MEMORY_BYTES: u64 = 96 << 20;

pub(super) fn of(run: &Linux, plumb: &Path, run_folder: &Path, terminal: bool) -> Result<Plan, LinuxError> {
    let invalid = |message: String| LinuxError::Invalid { message };
    if run.command.is_empty() {
        return Err(invalid("nothing to run: name a command after `--`, such as `-- fio job.fio`".to_owned()));
    }
    if run.memory_bytes < LEAST_MEMORY_BYTES {
        return Err(invalid(format!("a guest needs at least {} MiB of memory", LEAST_MEMORY_BYTES >> 20)));
    }
    let zoned = run.front_end != FrontEnd::NullBlk && zoned(&run.device, &run.folder)?;
    let front_end = match run.front_end {
        FrontEnd::Auto if zoned => FrontEnd::NvmeTcp,
        FrontEnd::Auto => FrontEnd::Ublk,
        front_end => front_end,
    };
    if zoned && front_end == FrontEnd::Loop {
        return Err(invalid(format!(
            "{} is a zoned device, and {front_end} has no words for zones: choose ublk or nvme-tcp",
            run.device
        )));
    }
    match (run.file_system, zoned) {
        (FileSystem::Zonefs, false) => {
            return Err(invalid(format!("zonefs needs a zoned device, and {} has no zones", run.device)));
        }
        (FileSystem::Ext4 | FileSystem::Xfs, true) => {
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
    let mut writable = vec![Text::from(run_folder)];
    if let Some(output) = &run.output {
        fs::create_dir_all(output).map_err(LinuxError::system(format!("cannot make {}", output.display())))?;
        writable.push(Text::from(super::absolute(output)?.as_path()));
    }
    if let Some(folder) = run.image.as_deref().and_then(Path::parent) {
        writable.push(Text::from(super::absolute(folder)?.as_path()));
    }
    let command = run.command.iter().enumerate();
    let environment = run.environment.iter().map(|(name, value)| (Text::from(&**name), Text::from(&**value)));
    Ok(Plan {
        front_end,
        file_system: run.file_system,
        file_system_is_made: run.file_system_is_made,
        file_system_bytes: run.file_system_bytes,
        mkfs_options: run.mkfs_options.split_whitespace().map(str::to_owned).collect(),
        mount_options: run.mount_options.clone(),
        zoned,
        plumb: Text::from(plumb),
        serve: serve_arguments(run, run_folder),
        command: command.map(|(place, word)| Text::from(&*resolved(&run.folder, place, word))).collect(),
        environment: environment.collect(),
        folder: Text::from(run.folder.as_path()),
        writable,
        run_folder: Text::from(run_folder),
        charge: run.charge.is_some(),
        trace: run.trace,
        seed: run.seed,
        terminal,
    })
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

fn serve_arguments(run: &Linux, run_folder: &Path) -> Vec<Text> {
    let device = if run.device.ends_with(".toml") {
        run.folder.join(&run.device).into_os_string()
    } else {
        OsString::from(&run.device)
    };
    let mut arguments = vec![OsString::from("--device"), device];
    for setting in &run.settings {
        arguments.extend(["--set".into(), setting.into()]);
    }
    if run.trace {
        arguments.extend(["--trace".into(), run_folder.join(artifact::DEVICE_TRACE).into_os_string()]);
    }
    if let Some(image) = &run.image {
        arguments.extend(["--image".into(), image.clone().into_os_string()]);
    }
    arguments.extend(run.serve_arguments.iter().cloned());
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

    #[test]
    fn what_does_not_go_together_is_refused() {
        let zoned = "wd-zn540";
        let plan = |device: &str, front_end, file_system| {
            let mut run = Linux::new("/bin/true", device);
            (run.front_end, run.file_system) = (front_end, file_system);
            of(&run.command(["true"]), Path::new("/bin/true"), Path::new("/run/x"), false)
        };
        let refused = |result: Result<Plan, LinuxError>| result.unwrap_err().to_string();
        assert!(refused(plan(zoned, FrontEnd::Auto, FileSystem::Ext4)).contains("writes in place"));
        assert!(refused(plan(zoned, FrontEnd::Loop, FileSystem::None)).contains("no words for zones"));
        assert!(
            refused(plan("samsung-980pro-1tb", FrontEnd::Auto, FileSystem::Zonefs)).contains("needs a zoned device")
        );
        assert!(refused(plan("absent", FrontEnd::Auto, FileSystem::None)).contains("absent"));
        assert!(
            refused(of(&Linux::new("/bin/true", zoned), Path::new("/bin/true"), Path::new("/"), false))
                .contains("nothing to run")
        );
        let plan = plan(zoned, FrontEnd::Auto, FileSystem::F2fs).unwrap();
        assert_eq!((plan.front_end, plan.zoned), (FrontEnd::NvmeTcp, true));
    }
}
