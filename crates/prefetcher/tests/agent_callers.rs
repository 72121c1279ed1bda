//! Callers of the agent who want more than they may have: bits they may write, more files than others, another user's name.
#![allow(clippy::unwrap_used)]

mod agent_rig;

use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use agent_rig::{OTHER, PAGES, Rig, as_other};
use prefetcher::agent::client::Agent as Client;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

/// `BPF_MAP_UPDATE_ELEM` of bpf(2).
const UPDATE: i32 = 2;

/// Callers of one user (docs/prefetch.md).
const CALLERS_OF_USER: usize = 128;

/// What the kernel has for changing one element.
#[repr(C)]
struct Element {
    map: u32,
    pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

fn update(element: &Element) -> Result<(), Errno> {
    // SAFETY: the kernel reads as many bytes as it is told, of memory that the element names.
    let done = unsafe { libc::syscall(libc::SYS_bpf, UPDATE, std::ptr::from_ref(element), size_of::<Element>()) };
    if done < 0 { Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap()) } else { Ok(()) }
}

/// A connection of a caller who means no good.
fn connect(rig: &Rig) -> OwnedFd {
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    rustix::net::connect(&socket, &SocketAddrUnix::new(rig.socket()).unwrap()).unwrap();
    socket
}

/// The array as it is handed over.
fn array_of(socket: &OwnedFd, file: &File) -> OwnedFd {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [file.as_fd()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
    let text = b"plumb-prefetch 1 follow";
    rustix::net::sendmsg(socket, &[IoSlice::new(text)], &mut control, SendFlags::empty()).unwrap();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut answer = [0; 64];
    rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut answer)], &mut control, RecvFlags::empty()).unwrap();
    let mut descriptors = control.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => descriptors,
        _ => panic!("no descriptors"),
    });
    descriptors.next().unwrap()
}

#[test]
fn bits_are_read_and_written_by_nobody() {
    let Some(rig) = Rig::start() else { return };
    let socket = connect(&rig);
    let array = array_of(&socket, &rig.file("mine"));
    let map = |access: ProtFlags| {
        // SAFETY: a new mapping at a place of the kernel's choice; it is never used.
        unsafe { rustix::mm::mmap(std::ptr::null_mut(), 4096, access, MapFlags::SHARED, &array, 0) }.map(|_| ())
    };
    assert_eq!(map(ProtFlags::READ), Ok(()));
    assert_eq!(map(ProtFlags::READ | ProtFlags::WRITE), Err(Errno::PERM));
    assert_eq!(map(ProtFlags::WRITE), Err(Errno::PERM));
    // By bpf(2), neither, whatever capabilities the caller has: it is frozen.
    let (key, value) = (0_u32, [u64::MAX; 64]);
    let element = Element {
        map: array.as_raw_fd().cast_unsigned(),
        pad: 0,
        key: (&raw const key) as u64,
        value: value.as_ptr() as u64,
        flags: 0,
    };
    assert_eq!(update(&element), Err(Errno::PERM));
    rig.finish();
}

#[test]
fn one_user_does_not_keep_others_from_it() {
    let Some(rig) = Rig::start() else { return };
    let (socket, mine) = (rig.socket(), rig.file("mine"));
    let theirs = rig.file("theirs");
    // Nothing but holes; the bits of five are more than one user may have.
    let huge = ["1", "2", "3", "4", "5"].map(|name| rig.file(name));
    huge.iter().for_each(|file| file.set_len(1 << 40).unwrap());
    for file in huge.iter().chain([&theirs]) {
        std::os::unix::fs::fchown(file, Some(OTHER), None).unwrap();
    }
    as_other(move || {
        let client = Client::connect(&socket).unwrap();
        let followed = huge.iter().take_while(|file| client.ask(file.as_fd()).is_ok()).count();
        assert!((1..5).contains(&followed), "{followed}");
        let refused = client.ask(huge[followed].as_fd()).err().unwrap().to_string();
        assert!(refused.contains("too many or too large"), "{refused}");
        drop(client);
        let client = Client::connect(&socket).unwrap();
        assert!(client.ask(theirs.as_fd()).is_ok(), "a file of usual size is followed beside");
        let others: Vec<_> = (0..2 * CALLERS_OF_USER)
            .filter_map(|_| Client::connect(&socket).ok().filter(|one| one.status().is_ok()))
            .collect();
        assert_eq!(others.len() + 1, CALLERS_OF_USER);
        // The connections stay meanwhile.
        others
    });
    let others = {
        let (socket, theirs) = (rig.socket(), rig.folder.path().join("theirs"));
        as_other(move || {
            let all: Vec<_> = (0..2 * CALLERS_OF_USER)
                .filter_map(|_| Client::connect(&socket).ok().filter(|one| one.status().is_ok()))
                .collect();
            assert_eq!(all.len(), CALLERS_OF_USER, "who has gone has made room");
            assert!(all[0].ask(File::open(theirs).unwrap().as_fd()).is_ok());
            all
        })
    };
    assert!(rig.client().ask(mine.as_fd()).is_ok(), "another user is served");
    drop(others);
    let counts = rig.finish();
    assert_eq!(counts.turned_away, (2 * 2 * CALLERS_OF_USER - 2 * CALLERS_OF_USER + 1) as u64, "{counts:?}");
}

#[test]
fn a_caller_is_who_connected() {
    let Some(rig) = Rig::start() else { return };
    rig.file("roots");
    let file = rig.read_only("roots");
    // It connected as root, and gave that up: as with a descriptor that was opened before, what was, counts.
    let socket = connect(&rig);
    let file = as_other(move || {
        array_of(&socket, &file);
        file
    });
    let socket = rig.socket();
    let client = as_other(move || Client::connect(&socket).unwrap());
    // And the other way: it became root after.
    assert!(client.ask(file.as_fd()).err().unwrap().to_string().contains("not yours"));
    rig.finish();
}

/// What [`namespaces_of_a_callers_own_change_nothing`] runs within them: the socket, then a file of root's, then one of its own.
#[test]
#[ignore = "run by namespaces_of_a_callers_own_change_nothing"]
fn within_namespaces() {
    let paths = std::env::var("PLUMB_TEST_PATHS").unwrap();
    let [socket, roots, own] = paths.split(' ').collect::<Vec<_>>()[..] else { panic!("{paths}") };
    let client = Client::connect(socket.as_ref()).unwrap();
    let refused = client.ask(File::open(roots).unwrap().as_fd()).err().unwrap().to_string();
    let bits = client.ask(File::open(own).unwrap().as_fd());
    if std::env::var_os("PLUMB_TEST_OWN_MOUNTS").is_some() {
        // What it is a file of cannot be told.
        let own = bits.err().unwrap().to_string();
        assert!(refused.contains("not seen here") && own.contains("not seen here"), "{refused}; {own}");
    } else {
        assert!(refused.contains("not yours"), "{refused}");
        let bits = bits.unwrap();
        assert!((0..PAGES).all(|page| bits.is_set(page) == Some(true)));
    }
    println!("asked");
}

#[test]
fn namespaces_of_a_callers_own_change_nothing() {
    let Some(rig) = Rig::start() else { return };
    rig.file("roots");
    std::os::unix::fs::fchown(rig.file("own"), Some(OTHER), None).unwrap();
    let at = |name: &str| rig.folder.path().join(name).to_str().unwrap().to_owned();
    // Root of a user namespace of his own, and then with other mounts than the agent sees.
    let program = std::fs::read_link("/proc/self/exe").unwrap();
    let copy = rig.folder.path().join("test");
    std::fs::copy(program, &copy).unwrap();
    for options in [&["--user", "--map-root-user"][..], &["--user", "--map-root-user", "--mount"]] {
        let mut command = Command::new("unshare");
        if options.contains(&"--mount") {
            command.env("PLUMB_TEST_OWN_MOUNTS", "1");
        }
        command.args(options).arg("--").arg(&copy).args(["--exact", "--ignored", "within_namespaces", "--nocapture"]);
        command.env("PLUMB_TEST_PATHS", [at("socket"), at("roots"), at("own")].join(" "));
        let ran = command.current_dir("/").uid(OTHER).gid(OTHER).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
        if said.contains("unshare failed") {
            println!("skipped: {said}");
            continue;
        }
        assert!(ran.status.success() && said.contains("asked"), "{options:?}: {said}");
    }
    rig.finish();
}
