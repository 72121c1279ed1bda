//! Whether the library can act in a program: its ELF file, or that of the interpreter that its `#!` line names.

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::PrefetcherError;

/// Why the library cannot act.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Obstacle {
    /// No dynamic linker starts it.
    #[error("it is linked statically: no library can be loaded before it")]
    Static,
    /// It makes its system calls itself.
    #[error("it is a Go program, which makes its system calls without the C library")]
    Go,
    /// The dynamic linker does not listen to its environment.
    #[error("it is run with privileges of its own (setuid, setgid or capabilities), where LD_PRELOAD is ignored")]
    Privileged,
    /// Of another architecture.
    #[error("it is for another architecture or word size than plumb is")]
    Foreign,
    /// It cannot be read, or is not an ELF file.
    #[error("it is no program that can be looked at ({0})")]
    Unknown(String),
}

/// Interpreters of interpreters are followed this far, as the kernel does.
const MOST_SCRIPTS: usize = 4;

const MAX_NOTES_BYTES: u64 = 64 << 10;

/// The file that a command names, as `execvp` finds it.
///
/// # Errors
/// If there is none.
pub fn find(command: &Path) -> Result<PathBuf, PrefetcherError> {
    let is_program =
        |path: &Path| fs::metadata(path).is_ok_and(|status| status.is_file() && status.mode() & 0o111 != 0);
    if command.as_os_str().as_bytes().contains(&b'/') {
        return Ok(command.to_owned());
    }
    let folders = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let found = std::env::split_paths(&folders).map(|folder| folder.join(command)).find(|path| is_program(path));
    found.ok_or_else(|| PrefetcherError::NotFound(command.to_owned()))
}

/// Why the library could not act in the program of this file; none if it can.
pub fn obstacle(path: &Path) -> Option<Obstacle> {
    let mut path = path.to_owned();
    for _ in 0..=MOST_SCRIPTS {
        match look(&path) {
            Ok(Looked::Script(interpreter)) => path = interpreter,
            Ok(Looked::Dynamic) => return None,
            Ok(Looked::Obstacle(obstacle)) => return Some(obstacle),
            Err(error) => return Some(Obstacle::Unknown(error.to_string())),
        }
    }
    Some(Obstacle::Unknown("interpreters of interpreters".to_owned()))
}

enum Looked {
    Dynamic,
    Script(PathBuf),
    Obstacle(Obstacle),
}

/// Fields of an ELF file of this machine's own kind.
struct Elf<'a> {
    file: &'a File,
    header: [u8; 64],
}

const PT_INTERP: u32 = 3;
const PT_NOTE: u32 = 4;
const SEGMENT_BYTES: u64 = 56;

/// `e_machine` of this program.
const MACHINE: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };

fn look(path: &Path) -> std::io::Result<Looked> {
    let file = File::open(path)?;
    let mut header = [0; 64];
    let count = file.read_at(&mut header, 0)?;
    if header.starts_with(b"#!") {
        let mut line = [0; 256];
        let count = file.read_at(&mut line, 0)?;
        let line = line[2..count.max(2)].split(|byte| *byte == b'\n').next().unwrap_or_default();
        let word = line.trim_ascii().split(|byte| matches!(byte, b' ' | b'\t')).next().unwrap_or_default();
        return Ok(Looked::Script(PathBuf::from(std::ffi::OsStr::from_bytes(word))));
    }
    if !header.starts_with(b"\x7fELF") || count < header.len() {
        return Ok(Looked::Obstacle(Obstacle::Unknown("neither ELF nor a script".to_owned())));
    }
    let elf = Elf { file: &file, header };
    if header[4] != 2 || header[5] != 1 || u16::from_le_bytes([header[18], header[19]]) != MACHINE {
        return Ok(Looked::Obstacle(Obstacle::Foreign));
    }
    let metadata = file.metadata()?;
    let mut capabilities = [0_u8; 64];
    let has_capabilities =
        rustix::fs::fgetxattr(&file, "security.capability", &mut capabilities[..]).is_ok_and(|bytes| bytes > 0);
    let is_others = metadata.uid() != rustix::process::geteuid().as_raw();
    if metadata.mode() & 0o4000 != 0 && is_others || metadata.mode() & 0o2000 != 0 || has_capabilities {
        return Ok(Looked::Obstacle(Obstacle::Privileged));
    }
    let is_dynamic = !elf.segments(PT_INTERP)?.is_empty();
    Ok(match is_dynamic {
        _ if elf.is_go()? => Looked::Obstacle(Obstacle::Go),
        false => Looked::Obstacle(Obstacle::Static),
        true => Looked::Dynamic,
    })
}

impl Elf<'_> {
    /// Offset and size of each segment of a type.
    fn segments(&self, kind: u32) -> std::io::Result<Vec<(u64, u64)>> {
        let word = |at: usize| self.header[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
        let half = |at: usize| u16::from_le_bytes([self.header[at], self.header[at + 1]]);
        let (begin, each, count) = (word(32), u64::from(half(54)), half(56));
        let mut found = Vec::new();
        if each < SEGMENT_BYTES {
            return Ok(found);
        }
        for index in 0..u64::from(count) {
            let mut segment = [0; SEGMENT_BYTES as usize];
            self.file.read_exact_at(&mut segment, begin.saturating_add(index * each))?;
            let field = |at: usize| segment[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
            if segment[..4].try_into().map_or(0, u32::from_le_bytes) == kind {
                found.push((field(8), field(32)));
            }
        }
        Ok(found)
    }

    /// Whether Go's linker has left its build id: a note of the owner `Go`.
    fn is_go(&self) -> std::io::Result<bool> {
        for (offset, bytes) in self.segments(PT_NOTE)? {
            let mut notes = vec![0; bytes.min(MAX_NOTES_BYTES) as usize];
            let count = self.file.read_at(&mut notes, offset)?;
            notes.truncate(count);
            if has_note(&notes, b"Go") {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Whether one of these notes has this owner.
fn has_note(mut notes: &[u8], owner: &[u8]) -> bool {
    while let Some((head, rest)) = notes.split_at_checked(12) {
        let field = |at: usize| head[at..at + 4].try_into().map_or(0, u32::from_le_bytes) as usize;
        let (name, contents) = (field(0), field(4));
        // With one zero or more behind it: Go's linker writes two.
        let is_owners = |name: &[u8]| name.strip_prefix(owner).is_some_and(|rest| rest.iter().all(|byte| *byte == 0));
        if rest.get(..name).is_some_and(is_owners) {
            return true;
        }
        let skip = name.next_multiple_of(4).saturating_add(contents.next_multiple_of(4));
        match rest.get(skip..) {
            Some(rest) => notes = rest,
            None => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_can_be_looked_at(mut bytes: Vec<u8>, begins_as_elf: bool, rest in proptest::array::uniform32(0_u8..)) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("program");
            if begins_as_elf {
                let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
                elf.extend([0; 9]);
                elf.extend([2, 0, MACHINE as u8, 0]);
                elf.extend(rest);
                elf.append(&mut bytes);
                bytes = elf;
            }
            fs::write(&path, &bytes).unwrap();
            prop_assert!(obstacle(&path).is_some());
            has_note(&bytes, b"Go");
        }
    }

    #[test]
    fn this_test_can_be_preloaded_and_scripts_are_their_interpreters() {
        let own = std::env::current_exe().unwrap();
        assert_eq!(obstacle(&own), None);
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        fs::write(&script, format!("#! {} -x\necho\n", own.display())).unwrap();
        assert_eq!(obstacle(&script), None);
        fs::write(&script, format!("#!{}\n", script.display())).unwrap();
        assert!(matches!(obstacle(&script), Some(Obstacle::Unknown(_))));
        assert!(matches!(find(Path::new("no-such-program-anywhere")), Err(PrefetcherError::NotFound(_))));
        assert!(find(Path::new("sh")).unwrap().ends_with("sh"));
    }

    #[test]
    fn a_note_is_found_by_its_owner() {
        let mut notes = Vec::new();
        for (name, contents) in [(&b"GNU\0"[..], 5_u32), (b"Go\0\0", 3)] {
            notes.extend(if name[2] == 0 { 3_u32 } else { 4 }.to_le_bytes());
            notes.extend(contents.to_le_bytes());
            notes.extend(4_u32.to_le_bytes());
            notes.extend(name);
            notes.extend(vec![7; contents.next_multiple_of(4) as usize]);
        }
        assert!(
            has_note(&notes, b"Go") && has_note(&notes, b"GNU") && !has_note(&notes, b"Gu") && !has_note(&notes, b"G")
        );
    }
}
