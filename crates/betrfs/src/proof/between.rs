//! Changes while a call reads from the storage: nobody waits for that, and nothing old stays in memory.

use std::sync::{Arc, Mutex, PoisonError};

use storage::{Completion, Memory, Queue, Request, Storage, StorageError, Tag};

use super::compare::reader;
use super::traces::{at, tiny};
use crate::operations::{Caller, Error, InodeNumber, Name, Operations, Permissions, SetAttributes};
use crate::{Volume, VolumeOptions};

const ROOT: InodeNumber = InodeNumber::ROOT;

/// Bytes of a file of several granules before and after.
const OLD: usize = 150_000;
const NEW: usize = 180_000;

type Hook = Box<dyn FnOnce() -> Result<(), Error> + Send>;

/// Something to do when the storage is next read.
#[derive(Clone, Default)]
struct Then(Arc<Mutex<Option<Hook>>>);

impl Then {
    fn set(&self, hook: Hook) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(hook);
    }

    fn take(&self) -> Option<Hook> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

struct Interrupted(Memory, Then);

impl Storage for Interrupted {
    fn capacity_bytes(&self) -> u64 {
        self.0.capacity_bytes()
    }

    fn open_queue(&self) -> Result<Box<dyn Queue>, StorageError> {
        Ok(Box::new(InterruptedQueue(self.0.open_queue()?, self.1.clone())))
    }
}

struct InterruptedQueue(Box<dyn Queue>, Then);

impl Queue for InterruptedQueue {
    fn submit(&mut self, tag: Tag, request: Request) {
        if matches!(request, Request::Read { .. })
            && let Some(hook) = self.1.take()
        {
            hook().unwrap();
        }
        self.0.submit(tag, request);
    }

    fn complete(&mut self, completions: &mut Vec<Completion>) {
        self.0.complete(completions);
    }
}

fn caller(time: u64) -> Caller<'static> {
    Caller { uid: 1, gid: 1, groups: &[], umask: 0, now: at(time) }
}

fn options() -> VolumeOptions {
    VolumeOptions { inode_cache_bytes: 1 << 20, recent_bytes: 1 << 20, ..tiny(3) }
}

/// A cold file system with one file of so many bytes, what can be set to happen when it next reads, and the file.
fn cold(length: usize) -> Result<(Arc<Volume>, Then, InodeNumber), Error> {
    let memory = Memory::new(16 << 20);
    let fs = Volume::create(memory.clone(), options(), 1, at(0))?;
    let file = fs.create(&caller(1), ROOT, Name::new(b"file")?, Permissions::of_mode(0o600))?.inode;
    fs.write(&caller(1), file, 0, &vec![1; length], false)?;
    fs.release(file)?;
    fs.settle()?;
    fs.database().quiesce()?;
    drop(fs);
    let then = Then::default();
    let fs = Arc::new(Volume::open(Interrupted(memory, then.clone()), options())?);
    fs.getattr(ROOT)?;
    Ok((fs, then, file))
}

/// What a lookup found is not taken for what is there, when that changed meanwhile; a read shows one moment.
pub(super) fn changes() -> Result<(), String> {
    let words = |error: Error| error.to_string();
    let (fs, then, file) = cold(5000).map_err(words)?;
    let changing = Arc::clone(&fs);
    then.set(Box::new(move || {
        let permissions = Some(Permissions::of_mode(0o640));
        changing.setattr(&caller(2), file, &SetAttributes { permissions, ..Default::default() }).map(drop)
    }));
    fs.lookup(ROOT, Name::new(b"file").map_err(words)?).map_err(words)?;
    if then.take().is_some() {
        return Err("a lookup in a cold file system read nothing".to_owned());
    }
    let permissions = fs.getattr(file).map_err(words)?.permissions;
    if permissions != Permissions::of_mode(0o640) {
        return Err(format!("{permissions:?} are from before the change"));
    }
    let (fs, then, file) = cold(OLD).map_err(words)?;
    fs.lookup(ROOT, Name::new(b"file").map_err(words)?).map_err(words)?;
    let changing = Arc::clone(&fs);
    then.set(Box::new(move || {
        changing.write(&caller(2), file, 0, &[2; NEW], false)?;
        changing.settle()
    }));
    let mut bytes = vec![0; 200_000];
    let length = fs.read(&reader(), file, 0, &mut bytes).map_err(words)?;
    if then.take().is_some() {
        return Err("a read of a cold file read nothing".to_owned());
    }
    let (old, new) = (bytes[..length] == [1; OLD], bytes[..length] == [2; NEW]);
    if !old && !new {
        return Err("a read of two moments".to_owned());
    }
    let (fs, _, file) = cold(OLD).map_err(words)?;
    let change = || {
        fs.write(&caller(2), file, 0, &[2; NEW], false)?;
        fs.settle()
    };
    let length = fs.read_overtaken(file, change, &mut bytes).map_err(words)?;
    if bytes[..length] == [1; OLD] { Ok(()) } else { Err("a read of what came after it".to_owned()) }
}

#[test]
fn nothing_waits_and_nothing_old_stays() {
    changes().unwrap();
}
