//! The agent hands bitmaps to those who may know, and to nobody else, whichever way they try. Needs root.
#![allow(clippy::unwrap_used)]

mod agent_rig;

use std::fs::{File, Permissions};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agent_rig::{OTHER, PAGES, Rig, as_other};
use prefetch::{PAGE_BYTES, Range};
use prefetcher::agent::Agent;
use prefetcher::agent::client::Agent as Client;
use prefetcher::residency::{Residency, cachestat};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType,
};

fn refusal(client: &Client, file: BorrowedFd<'_>) -> String {
    client.ask(file).err().unwrap().to_string()
}

/// Sends these bytes and descriptors as they are: whether the agent ends the connection.
fn is_turned_away(rig: &Rig, text: &[u8], descriptors: &[BorrowedFd<'_>]) -> bool {
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    rustix::net::connect(&socket, &SocketAddrUnix::new(rig.socket()).unwrap()).unwrap();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(descriptors)));
    }
    rustix::net::sendmsg(&socket, &[IoSlice::new(text)], &mut control, SendFlags::empty()).unwrap();
    let mut answer = [0_u8; 64];
    let ended = rustix::net::recv(&socket, &mut answer, RecvFlags::empty());
    matches!(ended, Ok((0, _)) | Err(rustix::io::Errno::CONNRESET))
}

#[test]
fn bits_are_those_of_the_kernel() {
    let Some(rig) = Rig::start() else { return };
    let file = rig.file("mine");
    let client = rig.client();
    let bits = client.ask(file.as_fd()).unwrap();
    let agrees = || {
        let said: Vec<bool> = (0..PAGES).map(|page| bits.is_set(page).unwrap()).collect();
        let words = cachestat::each_page(file.as_fd(), PAGES).unwrap();
        let kernel: Vec<bool> = (0..PAGES).map(|page| words[0] >> page & 1 != 0).collect();
        assert_eq!(said, kernel);
        said.iter().filter(|there| **there).count()
    };
    assert_eq!(agrees(), PAGES as usize);
    // All of it: of a large folio no part goes alone.
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    file.read_exact_at(&mut [0; PAGE_BYTES as usize], 10 * PAGE_BYTES).unwrap();
    agrees();
    let range = Range { start_bytes: 0, end_bytes: PAGES * PAGE_BYTES };
    assert_eq!(client.resident_pages(file.as_fd(), range), cachestat::resident_pages(file.as_fd(), range));
    let counts = rig.finish();
    assert_eq!((counts.not_permitted, counts.not_possible, counts.turned_away), (0, 0, 0), "{counts:?}");
    // The agent has gone: the kernel is asked.
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(client.resident_pages(file.as_fd(), range), cachestat::resident_pages(file.as_fd(), range));
    assert!(client.ask(file.as_fd()).is_err());
}

#[test]
fn nobody_learns_of_files_that_are_not_theirs() {
    let Some(rig) = Rig::start() else { return };
    let writable = rig.file("theirs");
    let read_only = rig.read_only("theirs");
    let link = rig.folder.path().join("link");
    std::fs::hard_link(rig.folder.path().join("theirs"), &link).unwrap();
    let linked = File::open(&link).unwrap();
    let found = File::options().read(true).custom_flags(libc::O_PATH).open(&link).unwrap();
    let socket = rig.socket();
    as_other(move || {
        let client = Client::connect(&socket).unwrap();
        // The way by which the kernel itself would refuse it.
        let range = Range { start_bytes: 0, end_bytes: PAGE_BYTES };
        assert_eq!(cachestat::resident_pages(read_only.as_fd(), range), None);
        for file in [&read_only, &linked] {
            assert!(refusal(&client, file.as_fd()).contains("not yours"));
            // By /proc the same file, opened again by this user: for reading alone.
            let again = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file));
            assert!(refusal(&client, File::open(&again).unwrap().as_fd()).contains("not yours"));
            assert!(File::options().write(true).open(&again).is_err());
        }
        assert!(refusal(&client, found.as_fd()).contains("no open file"));
        assert_eq!(client.resident_pages(read_only.as_fd(), range), None);
        // Who was given it open for writing may ask the kernel, too.
        assert!(client.ask(writable.as_fd()).is_ok());
    });
    let counts = rig.finish();
    assert_eq!((counts.not_permitted, counts.handed_out), (6, 2), "{counts:?}");
}

#[test]
fn a_name_that_changes_hands_leads_nowhere_else() {
    let Some(rig) = Rig::start() else { return };
    // A file of the other user's is sent while somebody else's takes its name again and again.
    let names = ["a", "b"].map(|name| rig.folder.path().join(name));
    std::fs::write(&names[0], vec![1; PAGE_BYTES as usize]).unwrap();
    std::fs::write(&names[1], vec![2; PAGE_BYTES as usize]).unwrap();
    std::os::unix::fs::chown(&names[1], Some(OTHER), None).unwrap();
    std::fs::set_permissions(rig.folder.path(), Permissions::from_mode(0o777)).unwrap();
    let (socket, place) = (rig.socket(), names[0].clone());
    let stop = Arc::new(AtomicBool::new(false));
    let (stopped, [first, second]) = (stop.clone(), names);
    let swapping = std::thread::spawn(move || {
        let third = first.with_extension("third");
        while !stopped.load(Ordering::SeqCst) {
            std::fs::rename(&first, &third).unwrap();
            std::fs::rename(&second, &first).unwrap();
            std::fs::rename(&third, &second).unwrap();
        }
    });
    as_other(move || {
        let client = Client::connect(&socket).unwrap();
        for _ in 0..200 {
            let Ok(file) = File::open(&place) else { continue };
            let owner = std::os::unix::fs::MetadataExt::uid(&file.metadata().unwrap());
            assert_eq!(client.ask(file.as_fd()).is_ok(), owner == OTHER, "the file that was sent counts");
        }
    });
    stop.store(true, Ordering::SeqCst);
    swapping.join().unwrap();
    rig.finish();
}

#[test]
fn what_is_no_request_ends_the_connection_and_nothing_else() {
    let Some(rig) = Rig::start() else { return };
    let file = rig.file("mine");
    let follow = b"plumb-prefetch 1 follow";
    assert!(is_turned_away(&rig, b"x", &[]));
    assert!(is_turned_away(&rig, b"x", &[file.as_fd()]));
    assert!(is_turned_away(&rig, follow, &[]), "no descriptor");
    assert!(is_turned_away(&rig, follow, &[file.as_fd(), file.as_fd()]), "two");
    assert!(is_turned_away(&rig, follow, &[file.as_fd(); 8]), "more than are taken");
    assert!(is_turned_away(&rig, &[b'x'; 9000], &[]), "longer than any");
    let client = rig.client();
    let (pipe, _other_end) = std::io::pipe().unwrap();
    let memory: OwnedFd = rustix::fs::memfd_create("x", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let folder = File::open(rig.folder.path()).unwrap();
    for none in [pipe.as_fd(), memory.as_fd(), folder.as_fd(), File::open("/dev/null").unwrap().as_fd()] {
        assert!(client.ask(none).is_err());
    }
    assert!(client.ask(file.as_fd()).is_ok(), "who asked for nothing is served");
    let counts = rig.finish();
    assert_eq!((counts.turned_away, counts.not_possible), (6, 4), "{counts:?}");
}

#[test]
fn a_file_that_goes_or_changes_its_owner_is_taken_back() {
    let Some(rig) = Rig::start() else { return };
    for change in ["chown", "unlink"] {
        let file = rig.file(change);
        let path = rig.folder.path().join(change);
        let client = rig.client();
        client.ask(file.as_fd()).unwrap();
        match change {
            "chown" => std::os::unix::fs::chown(&path, Some(OTHER), None).unwrap(),
            _ => std::fs::remove_file(&path).unwrap(),
        }
        // The connection ends; how soon is the agent's affair.
        let ended = (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            client.status().is_err()
        });
        assert!(ended, "{change}");
    }
    assert_eq!(rig.finish().taken_back, 2);
}

#[test]
fn a_second_agent_at_the_same_place_is_refused_and_one_that_died_gives_way() {
    let Some(rig) = Rig::start() else { return };
    assert!(Agent::start(&rig.socket()).is_err());
    let left = rig.folder.path().join("left");
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    rustix::net::bind(&socket, &SocketAddrUnix::new(&left).unwrap()).unwrap();
    drop(socket);
    assert!(left.exists());
    drop(Agent::start(&left).unwrap());
    assert!(!left.exists(), "it takes its socket away");
}
