//! What `-o` says, in the words of mount(8).

use std::path::PathBuf;

use rustix::mount::MountAttrFlags;

/// An option that cannot be.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// There is none of this name.
    #[error(
        "there is no mount option {name:?}; there are ro, rw, noatime, relatime, strictatime, nodiratime, nosuid, nodev, noexec, \
         nosymfollow, nobarrier (and their opposites), sync, dirsync, lazytime, allow_other, fsname=NAME, snapshot=NAME, without=STEP, computing=FILE"
    )]
    Unknown {
        /// What it is called.
        name: String,
    },
    /// It wants a value.
    #[error("the mount option {name} wants a value: {name}=VALUE")]
    NoValue {
        /// What it is called.
        name: &'static str,
    },
}

/// How a file system is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountOptions {
    /// Nothing can be changed.
    pub read_only: bool,
    /// What is mounted in the folder already is to get these options.
    pub remount: bool,
    /// Not only who mounted it may use it.
    pub allow_other: bool,
    /// The snapshot that is to be seen, which cannot be changed.
    pub snapshot: Option<String>,
    /// The server flushes no cache of its device.
    pub no_barrier: bool,
    /// `computing=FILE`: sleep for what answering would cost by that table, in virtual time.
    pub computing: Option<PathBuf>,
    /// `without=STEP`: what the file system is to leave out, in its own words.
    pub without: Option<String>,
    /// What `mount` and `df` show as its source.
    pub source: String,
    pub(super) attributes: MountAttrFlags,
    /// Flags of the whole file system, as mount(8) names them.
    pub(super) flags: Vec<&'static str>,
}

/// Attributes of a mount: the word that sets one, and the word that takes it back.
const ATTRIBUTES: [(&str, &str, MountAttrFlags); 6] = [
    ("nosuid", "suid", MountAttrFlags::MOUNT_ATTR_NOSUID),
    ("nodev", "dev", MountAttrFlags::MOUNT_ATTR_NODEV),
    ("noexec", "exec", MountAttrFlags::MOUNT_ATTR_NOEXEC),
    ("nodiratime", "diratime", MountAttrFlags::MOUNT_ATTR_NODIRATIME),
    ("nosymfollow", "symfollow", MountAttrFlags::MOUNT_ATTR_NOSYMFOLLOW),
    // With the bits of the three times below.
    ("noatime", "atime", MountAttrFlags::MOUNT_ATTR_NOATIME),
];
/// Flags of the whole file system, set and taken back.
const FLAGS: [(&str, &str); 3] = [("sync", "async"), ("dirsync", ""), ("lazytime", "nolazytime")];
/// What mount(8) and systemd write into fstab for themselves.
const FOR_OTHERS: [&str; 17] = [
    "defaults",
    "auto",
    "noauto",
    "user",
    "nouser",
    "users",
    "owner",
    "group",
    "nofail",
    "_netdev",
    "loop",
    "default_permissions",
    // What the kernel says of a mount, and mount(8) repeats when it is to be changed.
    "user_id",
    "group_id",
    "max_read",
    "blksize",
    "subtype",
];

impl MountOptions {
    /// Nothing special, of the file system in `source`.
    pub fn new(source: &str) -> Self {
        Self {
            read_only: false,
            remount: false,
            allow_other: false,
            snapshot: None,
            no_barrier: false,
            computing: None,
            without: None,
            source: source.to_owned(),
            attributes: MountAttrFlags::empty(),
            flags: Vec::new(),
        }
    }

    /// Whether reads are to be noted in access times: not with `noatime`.
    pub fn notes_accesses(&self) -> bool {
        !self.attributes.contains(MountAttrFlags::MOUNT_ATTR_NOATIME)
    }

    /// Takes what one `-o` says: words with commas between them, of which the last counts.
    ///
    /// # Errors
    ///
    /// For a word that means nothing.
    pub fn add(&mut self, words: &str) -> Result<(), OptionError> {
        words.split(',').filter(|word| !word.is_empty()).try_for_each(|word| self.add_word(word))
    }

    fn add_word(&mut self, word: &str) -> Result<(), OptionError> {
        if let Some((_, _, bit)) = ATTRIBUTES.iter().find(|(set, _, _)| *set == word) {
            if *bit == MountAttrFlags::MOUNT_ATTR_NOATIME {
                self.attributes.remove(MountAttrFlags::MOUNT_ATTR__ATIME);
            }
            self.attributes.insert(*bit);
        } else if let Some((_, _, bit)) = ATTRIBUTES.iter().find(|(_, clear, _)| *clear == word) {
            self.attributes.remove(*bit);
        } else if let Some((flag, _)) = FLAGS.iter().find(|(set, _)| *set == word) {
            self.flags.retain(|known| known != flag);
            self.flags.push(flag);
        } else if let Some((flag, _)) = FLAGS.iter().find(|(_, clear)| *clear == word) {
            self.flags.retain(|known| known != flag);
        } else {
            match word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value))) {
                ("ro", None) => self.read_only = true,
                ("remount", None) => self.remount = true,
                ("rw", None) => self.read_only = false,
                ("relatime" | "norelatime", None) => self.attributes.remove(MountAttrFlags::MOUNT_ATTR__ATIME),
                ("strictatime", None) => {
                    self.attributes.remove(MountAttrFlags::MOUNT_ATTR__ATIME);
                    self.attributes.insert(MountAttrFlags::MOUNT_ATTR_STRICTATIME);
                }
                ("allow_other", None) => self.allow_other = true,
                ("snapshot", Some(name)) if !name.is_empty() => {
                    (self.snapshot, self.read_only) = (Some(name.to_owned()), true);
                }
                ("snapshot", _) => return Err(OptionError::NoValue { name: "snapshot" }),
                ("computing", Some(file)) if !file.is_empty() => self.computing = Some(file.into()),
                ("computing", _) => return Err(OptionError::NoValue { name: "computing" }),
                ("without", Some(steps)) if !steps.is_empty() => self.without = Some(steps.to_owned()),
                ("without", _) => return Err(OptionError::NoValue { name: "without" }),
                ("nobarrier", None) => self.no_barrier = true,
                ("barrier", None) => self.no_barrier = false,
                ("fsname", Some(name)) if !name.is_empty() => name.clone_into(&mut self.source),
                ("fsname", _) => return Err(OptionError::NoValue { name: "fsname" }),
                (name, _) if FOR_OTHERS.contains(&name) || name.starts_with("x-") => {}
                (name, _) => return Err(OptionError::Unknown { name: name.to_owned() }),
            }
        }
        Ok(())
    }

    /// The same in the words of `fusermount3`.
    pub(super) fn words(&self, subtype: &str) -> String {
        let mut words = vec![if self.read_only { "ro".to_owned() } else { "rw".to_owned() }];
        words.extend(["nosuid", "nodev", "default_permissions"].map(str::to_owned));
        let given = ATTRIBUTES.iter().filter(|(_, _, bit)| self.attributes.contains(*bit));
        words.extend(
            given.map(|(word, _, _)| (*word).to_owned()).filter(|word| !words.contains(word)).collect::<Vec<_>>(),
        );
        words.extend(self.flags.iter().filter(|flag| **flag != "lazytime").map(|flag| (*flag).to_owned()));
        words.extend(self.allow_other.then(|| "allow_other".to_owned()));
        words.push(format!("subtype={subtype}"));
        words.push(format!("fsname={}", self.source.replace('\\', "\\\\").replace(',', "\\,")));
        words.join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(words: &str) -> Result<MountOptions, OptionError> {
        let mut options = MountOptions::new("disk,1");
        options.add(words).map(|()| options)
    }

    #[test]
    fn the_last_word_counts() {
        assert!(
            options("rw,relatime,user_id=0,max_read=1048576,remount,ro").is_ok_and(|all| all.remount && all.read_only)
        );
        let both = options("ro,rw,noatime,,nosuid,suid,sync,async,x-systemd.automount,defaults").unwrap();
        assert_eq!(
            both,
            MountOptions { attributes: MountAttrFlags::MOUNT_ATTR_NOATIME, ..MountOptions::new("disk,1") }
        );
        assert_eq!(options("noatime,relatime").unwrap(), MountOptions::new("disk,1"));
        assert!(options("allow_other,ro").is_ok_and(|options| options.allow_other && options.read_only));
        assert!(
            options("snapshot=a").is_ok_and(|options| options.read_only && options.snapshot.as_deref() == Some("a"))
        );
        let computing = options("ro,computing=/a/costs.toml").unwrap().computing;
        assert_eq!(computing.as_deref(), Some(std::path::Path::new("/a/costs.toml")));
        assert_eq!(options("without=a+b").unwrap().without.as_deref(), Some("a+b"));
        assert_eq!(options("without="), Err(OptionError::NoValue { name: "without" }));
        assert_eq!(options("computing="), Err(OptionError::NoValue { name: "computing" }));
        assert!(options("barrier,nobarrier").is_ok_and(|options| options.no_barrier));
        assert_eq!(options("noatme"), Err(OptionError::Unknown { name: "noatme".to_owned() }));
        assert_eq!(options("fsname"), Err(OptionError::NoValue { name: "fsname" }));
    }

    #[test]
    fn fusermount_gets_words() {
        let words = options("ro,noatime,allow_other,lazytime").unwrap().words("plumb");
        assert_eq!(words, "ro,nosuid,nodev,default_permissions,noatime,allow_other,subtype=plumb,fsname=disk\\,1");
    }
}
