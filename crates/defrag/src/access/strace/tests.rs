//! The parser against texts as strace prints them, and against strace itself.

use super::*;
use std::fs;
use std::process::Command;

fn parsed(text: &str, folder: &Path) -> Parsed {
    parse(text.as_bytes(), Path::new("log"), folder).unwrap()
}

fn list(parsed: &Parsed) -> Vec<(IoKind, u64, u64, u64)> {
    parsed.trace.accesses.iter().map(|a| (a.kind, a.range.start, a.range.end, a.count)).collect()
}

fn file() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a (b), c");
    fs::write(&path, vec![7; 65_536]).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

use IoKind::{BufferedRead, BufferedWrite, DirectRead, DirectWrite, Mapped, Readahead};

#[test]
fn positions_are_followed() {
    let (folder, f) = file();
    let text = format!(
        r#"openat(AT_FDCWD</x>, "a", O_RDWR) = 3<{f}>
read(3<{f}>, "\"), 3) = 9\n"..., 100) = 100
read(3<{f}>, "", 100) = 20
dup2(3<{f}>, 9) = 9<{f}>
lseek(9<{f}>, 4096, SEEK_SET) = 4096
write(3<{f}>, "x", 50) = 50
read(3<{f}>, 0x7f, 100) = -1 EIO (Input/output error)
read(9<{f}>, ""..., 10) = 10
close(3<{f}>) = 0
openat(AT_FDCWD</x>, "a", O_RDWR|O_DIRECT|O_APPEND) = 3<{f}>
pread64(3<{f}>, ""..., 4096, 8192) = 4096
write(3<{f}>, ""..., 4096) = 4096
pwritev2(3<{f}>, [{{iov_base=""..., iov_len=512}}, {{iov_base="", iov_len=512}}], 2, 512, RWF_DSYNC) = 1024
read(0</dev/pts/0<char 136:0>>, "x", 1) = 1
read(5<pipe:[123]>, "x", 1) = 1
"#
    );
    let found = parsed(&text, folder.path());
    let expected = [
        (BufferedRead, 0, 100, 1),
        (BufferedRead, 100, 120, 1),
        (BufferedWrite, 4096, 4146, 1),
        (BufferedRead, 4146, 4156, 1),
        (DirectRead, 8192, 12_288, 1),
        (DirectWrite, 512, 1536, 1),
    ];
    assert_eq!(list(&found), expected);
    assert_eq!((found.skipped_lines, found.missing.len(), found.trace.files.len()), (0, 0, 1));
}

#[test]
fn threads_and_processes_share_what_they_do_share() {
    let (folder, f) = file();
    let text = format!(
        r#"10 12:00:00.5 openat(AT_FDCWD</x>, "a", O_RDONLY) = 3<{f}>
10 12:00:00.6 clone3({{flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_THREAD, exit_signal=0}} <unfinished ...>
11 12:00:00.6 openat(AT_FDCWD</x>, "a", O_RDONLY|O_DIRECT <unfinished ...>
10 12:00:00.7 <... clone3 resumed> => {{parent_tid=[11]}}, 88) = 11
11 12:00:00.7 <... openat resumed>) = 4<{f}> <0.000100>
10 12:00:00.8 read(4<{f}>, ""..., 4096) = 4096 <0.000012>
10 12:00:00.8 clone(child_stack=NULL, flags=CLONE_CHILD_CLEARTID|SIGCHLD, child_tidptr=0x7f) = 12
12 12:00:00.9 read(3<{f}>, ""..., 10) = 10
10 12:00:00.9 close(3<{f}>) = 0
12 12:00:00.9 read(3<{f}>, ""..., 10) = 10
12 12:00:00.9 +++ exited with 0 +++
10 12:00:00.9 --- SIGCHLD {{si_signo=SIGCHLD}} ---
"#
    );
    let found = parsed(&text, folder.path());
    assert_eq!(list(&found), [(DirectRead, 0, 4096, 1), (BufferedRead, 0, 10, 1), (BufferedRead, 10, 20, 1)]);
    assert_eq!(found.skipped_lines, 0);
    let bracketed =
        text.replace("10 12", "[pid    10] 12").replace("11 12", "[pid    11] 12").replace("12 12", "[pid 12] 12");
    assert_eq!(parsed(&bracketed, folder.path()), found);
}

#[test]
fn calls_without_read_in_their_names_count_too() {
    let (folder, f) = file();
    let text = format!(
        r#"sendfile(1<pipe:[5]>, 3<{f}>, [4096] => [8192], 4096) = 4096
sendfile(1<pipe:[5]>, 3<{f}>, NULL, 100) = 100
copy_file_range(3<{f}>, [0], 4<{f}>, NULL, 4096, 0) = 512
mmap(NULL, 8192, PROT_READ, MAP_SHARED, 3<{f}>, 0x1000) = 0x7f0000000000
mmap(NULL, 8192, PROT_READ, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f0000000000
readahead(3<{f}>, 0, 65536) = 0
io_submit(0x7f, 2, [{{aio_data=0, aio_lio_opcode=IOCB_CMD_PREAD, aio_fildes=3<{f}>, aio_buf=0x55, aio_nbytes=4096, aio_offset=16384}}, {{aio_lio_opcode=IOCB_CMD_PWRITEV, aio_fildes=3<{f}>, aio_buf=[{{iov_base="a", iov_len=8}}, {{iov_base="b", iov_len=8}}], aio_offset=0}}]) = 2
io_uring_enter(5<anon_inode:[io_uring]>, 1, 1, IORING_ENTER_GETEVENTS, NULL, 8) = 1
read(3</no/such/file>, "", 7) = 7
"#
    );
    let found = parsed(&text, folder.path());
    let expected = [
        (BufferedRead, 4096, 8192, 1),
        (BufferedRead, 0, 100, 1),
        (BufferedRead, 0, 512, 1),
        (BufferedWrite, 0, 512, 1),
        (Mapped, 4096, 12_288, 1),
        (Readahead, 0, 65_536, 1),
        (BufferedRead, 16_384, 20_480, 1),
        (BufferedWrite, 0, 16, 1),
    ];
    assert_eq!(list(&found), expected);
    assert_eq!(found.skipped_lines, 1, "io_uring's accesses are not in it");
    assert_eq!(found.missing, [("/no/such/file".into(), 1)].into());
}

#[test]
fn another_text_is_refused() {
    let error = parse(&b"It was a dark and stormy night.\n"[..], Path::new("novel"), Path::new("/")).unwrap_err();
    assert!(error.to_string().contains("novel, line 1: no line of it is a system call"), "{error}");
}

/// strace of dd with known offsets.
#[test]
fn what_strace_writes_is_read() {
    let (folder, f) = file();
    let log = folder.path().join("log");
    let run = Command::new("strace")
        .args(["-f", "-y", "-tt", "-T", "-e", "trace=desc,process", "-o"])
        .arg(&log)
        .args(["sh", "-c", "dd if=\"$1\" of=/dev/null bs=4096 skip=2 count=3; exit 0", "sh", &f])
        .output();
    let Ok(text) = run.and_then(|_| fs::read(&log)) else {
        println!("skipped: strace is not installed");
        return;
    };
    if !String::from_utf8_lossy(&text).contains("execve") && !String::from_utf8_lossy(&text).contains("read(") {
        println!("skipped: strace may not trace here");
        return;
    }
    let found = parse(&text[..], &log, folder.path()).unwrap();
    let id = super::super::resolve::identify(Path::new(&f)).unwrap();
    let of_file: Vec<_> = found.trace.accesses.iter().filter(|a| a.file == id).map(|a| (a.kind, a.range)).collect();
    let expected = [8192, 12_288, 16_384].map(|start| (BufferedRead, ByteRange { start, end: start + 4096 }));
    assert_eq!(of_file, expected);
}

proptest::proptest! {
    #[test]
    fn any_lines_are_taken(lines in "((\\[pid [0-9]{1,9}\\] |[0-9]{1,9} )?(read|lseek|dup|clone|mmap|io_submit|splice|<... read resumed>)\\([0-9]{0,3}[<>/a\", \\[\\]{}=0-9]{0,30}\\)? = -?[0-9]{1,21}(<unfinished ...>)?\n){0,6}.{0,20}") {
        let _ = parse(lines.as_bytes(), Path::new("log"), Path::new("/"));
    }

    #[test]
    fn any_bytes_are_taken(bytes: Vec<u8>) {
        let _ = parse(&bytes[..], Path::new("log"), Path::new("/"));
    }
}
