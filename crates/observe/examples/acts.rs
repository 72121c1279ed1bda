//! A program for the tests: it does to the files of a folder what its first argument names. Its second one is the folder.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::thread;

use rustix::fs as calls;
use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags, RenameFlags};

type Done = Result<(), Box<dyn std::error::Error>>;

fn main() -> Done {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, act, folder, ..] = arguments.as_slice() else { return Err("two arguments".into()) };
    std::env::set_current_dir(folder)?;
    match act.as_str() {
        "files" => files(),
        "names" => names(Path::new(folder)),
        "copies" => copies(),
        "maps" => maps(),
        "threads" => threads(),
        "children" => children(folder),
        "acknowledge" => acknowledge(),
        "replace" => replace(),
        "die" => die(),
        "ring" => ring(),
        "requests" => requests(),
        other => Err(format!("unknown: {other}").into()),
    }
}

fn files() -> Done {
    let mut file = File::create("a")?;
    file.write_all(b"hello ")?;
    file.write_all(b"world")?;
    file.write_at(b"J", 0)?;
    rustix::io::pwritev(&file, &[std::io::IoSlice::new(b"12"), std::io::IoSlice::new(b"34")], 100)?;
    file.sync_all()?;
    file.set_len(50)?;
    file.sync_data()?;
    calls::fallocate(&file, FallocateFlags::empty(), 0, 8192)?;
    calls::fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, 4096)?;
    let mut twice = file.try_clone()?;
    twice.seek(SeekFrom::Start(7))?;
    file.write_all(b"at seven")?;
    drop((file, twice));
    let mut log = OpenOptions::new().append(true).open("a")?;
    log.write_all(b"end")?;
    let mut sync = OpenOptions::new().write(true).custom_flags(libc::O_DSYNC).open("a")?;
    sync.write_all(b"d")?;
    rustix::io::pwritev2(&log, &[std::io::IoSlice::new(b"s")], 0, rustix::io::ReadWriteFlags::SYNC)?;
    File::create("a")?;
    // Neither of these changes a file that is there.
    File::open("a")?.read_exact(&mut [])?;
    drop(OpenOptions::new().write(true).open("a")?);
    drop(OpenOptions::new().write(true).create_new(true).open("a"));
    let (mut reader, mut writer) = std::io::pipe()?;
    writer.write_all(b"elsewhere")?;
    reader.read_exact(&mut [0; 9])?;
    calls::sync();
    Ok(())
}

fn names(folder: &Path) -> Done {
    fs::create_dir("d")?;
    fs::write("d/one", b"1")?;
    std::env::set_current_dir("d")?;
    fs::rename("one", "../two")?;
    let opened = File::open(folder)?;
    calls::linkat(&opened, "two", &opened, "d/three", AtFlags::empty())?;
    symlink("../two", "link")?;
    // Follows the link: what is emptied is the file.
    File::create("link")?;
    calls::renameat_with(calls::CWD, "three", calls::CWD, "link", RenameFlags::EXCHANGE)?;
    fs::remove_file("link")?;
    fs::rename("three", "../d/./last")?;
    fs::remove_file("last")?;
    std::env::set_current_dir("..")?;
    fs::remove_dir("d")?;
    let temporary = calls::openat(&opened, ".", OFlags::TMPFILE | OFlags::RDWR, Mode::RUSR)?;
    rustix::io::write(&temporary, b"t")?;
    let itself = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&temporary));
    calls::linkat(calls::CWD, itself.as_str(), &opened, "named", AtFlags::SYMLINK_FOLLOW)?;
    calls::mknodat(&opened, "pipe", calls::FileType::Fifo, Mode::RUSR, 0)?;
    calls::fsync(&opened)?;
    assert!(fs::rename("none", "nothing").is_err());
    Ok(())
}

fn copies() -> Done {
    fs::write("from", b"0123456789")?;
    let (from, to) = (File::open("from")?, File::create("to")?);
    calls::copy_file_range(&from, Some(&mut 2), &to, Some(&mut 4), 5)?;
    calls::sendfile(&to, &from, Some(&mut 7), 3)?;
    let (reader, mut writer) = std::io::pipe()?;
    writer.write_all(b"piped")?;
    rustix::pipe::splice(&reader, None, &to, Some(&mut 20), 5, rustix::pipe::SpliceFlags::empty())?;
    Ok(())
}

fn maps() -> Done {
    use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open("m")?;
    file.set_len(3 * 4096)?;
    // SAFETY: the mappings are fresh ones, nobody else has them, and they are written to inside their lengths.
    unsafe {
        let writable = ProtFlags::READ | ProtFlags::WRITE;
        let shared = rustix::mm::mmap(std::ptr::null_mut(), 8192, writable, MapFlags::SHARED, &file, 4096)?;
        shared.cast::<u8>().write(7);
        rustix::mm::msync(shared, 4096, MsyncFlags::SYNC)?;
        rustix::mm::mmap(std::ptr::null_mut(), 4096, writable, MapFlags::PRIVATE, &file, 0)?;
        let quiet = rustix::mm::mmap(std::ptr::null_mut(), 4096, ProtFlags::READ, MapFlags::SHARED, &file, 0)?;
        rustix::mm::mprotect(quiet, 4096, rustix::mm::MprotectFlags::READ | rustix::mm::MprotectFlags::WRITE)?;
    }
    Ok(())
}

/// How many threads append, and how often each.
const THREADS: usize = 4;
const TIMES: usize = 50;

fn threads() -> Done {
    let mut log = OpenOptions::new().append(true).create(true).open("log")?;
    thread::scope(|scope| {
        for number in 0..THREADS {
            let log = &log;
            scope.spawn(move || {
                let mut log = log;
                for time in 0..TIMES {
                    let line = format!("{number} {time}\n");
                    assert_eq!(log.write(line.as_bytes()).ok(), Some(line.len()));
                    assert!(fs::write(format!("file {number}"), &line).is_ok());
                }
            });
        }
    });
    log.flush()?;
    Ok(())
}

/// What a debugger could disturb: signals, stops, vfork, and exec from another thread than the first.
fn children(folder: &str) -> Done {
    let script =
        "trap 'echo got > signalled' USR1; kill -USR1 $$; (echo sub > shell) & wait; kill -STOP $$; echo on > stopped";
    let mut child = Command::new("sh").args(["-c", script]).spawn()?;
    let id = child.id();
    // The child stops itself; whoever waits for it sees that.
    let pid = rustix::process::Pid::from_raw(i32::try_from(id)?).ok_or("no process")?;
    let report = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::UNTRACED)?;
    let Some((_, status)) = report else { return Err("no report".into()) };
    if !status.stopped() {
        return Err("it did not stop".into());
    }
    if Path::new("stopped").exists() {
        return Err("it went on after its stop".into());
    }
    rustix::process::kill_process(pid, rustix::process::Signal::CONT)?;
    if !child.wait()?.success() {
        return Err("the child failed".into());
    }
    let (program, folder) = (std::env::current_exe()?, folder.to_owned());
    let exec = thread::spawn(move || Command::new(program).args(["replace", &folder]).exec());
    Err(exec.join().map_err(|_| "a thread panicked")?.into())
}

/// The safe way of replacing a file.
fn replace() -> Done {
    let mut new = File::create("new")?;
    new.write_all(b"contents")?;
    new.sync_all()?;
    fs::rename("new", "file")?;
    File::open(".")?.sync_all()?;
    Ok(())
}

fn acknowledge() -> Done {
    let path = std::env::var("PLUMB_ACKNOWLEDGE")?;
    let mut said = OpenOptions::new().append(true).open(path)?;
    fs::write("f", b"x")?;
    said.write_all(b"wrote")?;
    said.write_all(b" f\nand ")?;
    calls::sync();
    said.write_all(b"synced\n")?;
    Ok(())
}

fn die() -> Done {
    fs::write("before", b"x")?;
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)?;
    Ok(())
}

fn ring() -> Done {
    // `struct io_uring_params`, linux/io_uring.h.
    let mut parameters = [0_u32; 30];
    // SAFETY: the call fills the structure.
    let result = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, parameters.as_mut_ptr()) };
    if result >= 0 { Ok(()) } else { Err("no io_uring here".into()) }
}

/// Requests of Linux AIO: a write and a synchronisation after it, and a write whose end nobody asks for.
fn requests() -> Done {
    let file = File::create("a")?;
    let mut context: u64 = 0;
    // SAFETY: the call fills one number.
    if unsafe { libc::syscall(libc::SYS_io_setup, 8, &raw mut context) } != 0 {
        return Err("no AIO here".into());
    }
    let bytes = b"later";
    // `struct iocb`, linux/aio_abi.h: operation, descriptor, buffer, length and offset.
    let request = |operation: u64, length: u64, offset: u64| {
        let descriptor = file.as_raw_fd() as u64;
        let buffer = if length > 0 { bytes.as_ptr() as u64 } else { 0 };
        [0, 0, operation | descriptor << 32, buffer, length, offset, 0, 0_u64]
    };
    let submit = |request: &[u64; 8]| -> Done {
        let list = [request.as_ptr()];
        // SAFETY: the list has one request, which stays where it is until its end was told or the process ends.
        let taken = unsafe { libc::syscall(libc::SYS_io_submit, context, 1, list.as_ptr()) };
        if taken == 1 { Ok(()) } else { Err("a request was not taken".into()) }
    };
    let wait = || -> Done {
        let mut event = [0_u64; 4];
        let none = std::ptr::null::<libc::timespec>();
        // SAFETY: there is room for the one event that is asked for.
        let told = unsafe { libc::syscall(libc::SYS_io_getevents, context, 1, 1, event.as_mut_ptr(), none) };
        if told == 1 { Ok(()) } else { Err("no end was told".into()) }
    };
    let (write, sync, last) = (request(1, 5, 3), request(2, 0, 0), request(1, 5, 8));
    submit(&write)?;
    wait()?;
    submit(&sync)?;
    wait()?;
    submit(&last)
}
