//! Archives in the form that Linux unpacks as its first root file system.
//!
//! Source: `Documentation/driver-api/early-userspace/buffer-format.rst` of Linux ("newc": `070701`, thirteen fields of
//! eight hexadecimal digits, names and contents padded to four bytes).

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Component, Path};

const FOLDER: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_000;
const CHARACTER_DEVICE: u32 = 0o020_000;

/// Writes one archive; folders above an entry are made as needed.
pub struct Writer<W: Write> {
    sink: W,
    next_inode: u32,
    folders: BTreeSet<String>,
}

impl<W: Write> Writer<W> {
    /// An archive written to `sink`.
    pub fn new(sink: W) -> Writer<W> {
        Writer { sink, next_inode: 1, folders: BTreeSet::new() }
    }

    /// A folder.
    pub fn folder(&mut self, path: &Path) -> io::Result<()> {
        let mut name = String::new();
        for part in path.components() {
            let Component::Normal(part) = part else { continue };
            if !name.is_empty() {
                name.push('/');
            }
            name.push_str(&part.to_string_lossy());
            if self.folders.insert(name.clone()) {
                self.entry(&name, FOLDER | 0o755, (0, 0), &[])?;
            }
        }
        Ok(())
    }

    /// A regular file.
    pub fn file(&mut self, path: &Path, mode: u32, contents: &[u8]) -> io::Result<()> {
        self.parents(path)?;
        self.entry(&name_of(path), FILE | mode, (0, 0), contents)
    }

    /// A symbolic link.
    pub fn link(&mut self, path: &Path, target: &str) -> io::Result<()> {
        self.parents(path)?;
        self.entry(&name_of(path), LINK | 0o777, (0, 0), target.as_bytes())
    }

    /// A character device.
    pub fn character_device(&mut self, path: &Path, major: u32, minor: u32) -> io::Result<()> {
        self.parents(path)?;
        self.entry(&name_of(path), CHARACTER_DEVICE | 0o600, (major, minor), &[])
    }

    /// Ends the archive.
    pub fn finish(mut self) -> io::Result<W> {
        self.entry("TRAILER!!!", 0, (0, 0), &[])?;
        self.sink.flush()?;
        Ok(self.sink)
    }

    fn parents(&mut self, path: &Path) -> io::Result<()> {
        path.parent().map_or(Ok(()), |parent| self.folder(parent))
    }

    fn entry(&mut self, name: &str, mode: u32, device: (u32, u32), contents: &[u8]) -> io::Result<()> {
        let length = u32::try_from(contents.len())
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, format!("{name} is larger than 4 GiB")))?;
        let inode = self.next_inode;
        self.next_inode += 1;
        let fields = [
            inode,
            mode,
            0, // owner
            0, // group
            1, // links
            0, // time
            length,
            0, // major and minor number of the device that holds the file
            0,
            device.0,
            device.1,
            name.len() as u32 + 1,
            0, // no checksum in this form
        ];
        let mut header = String::from("070701");
        for field in fields {
            header.push_str(&format!("{field:08X}"));
        }
        header.push_str(name);
        header.push('\0');
        self.sink.write_all(header.as_bytes())?;
        self.pad(header.len())?;
        self.sink.write_all(contents)?;
        self.pad(contents.len())
    }

    fn pad(&mut self, length: usize) -> io::Result<()> {
        self.sink.write_all(&[0; 3][..length.next_multiple_of(4) - length])
    }
}

fn name_of(path: &Path) -> String {
    path.to_string_lossy().trim_start_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn the_systems_cpio_reads_what_was_written() {
        let Some(cpio) = crate::host::find("cpio") else {
            println!("skipped: cpio is not installed (apt-get install cpio)");
            return;
        };
        let mut writer = Writer::new(Vec::new());
        writer.file(Path::new("/a/b/odd"), 0o755, b"12345").unwrap();
        writer.file(Path::new("/a/empty"), 0o644, b"").unwrap();
        writer.link(Path::new("/a/link"), "b/odd").unwrap();
        let archive = writer.finish().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new(cpio)
            .args(["-i", "--quiet", "--no-absolute-filenames"])
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(&archive).unwrap();
        assert!(child.wait().unwrap().success());
        assert_eq!(std::fs::read(folder.path().join("a/link")).unwrap(), b"12345");
        assert_eq!(std::fs::read(folder.path().join("a/empty")).unwrap(), b"");
    }
}
