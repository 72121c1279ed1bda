"""Calls whose results POSIX or Linux promise, in the current folder: one line each, the same on every file system. Run as root."""

import ctypes, errno, fcntl, mmap, os, socket, stat, struct, time

libc = ctypes.CDLL(None, use_errno=True)
AT_FDCWD = -100
OTHER, MEMBER, GROUP = 1201, 1202, 1300


def say(label, act):
    try:
        value = act()
    except OSError as error:
        value = errno.errorcode.get(error.errno, error.errno)
    print(f"{label}: {value}", flush=True)


def call(name, *arguments):
    function = getattr(libc, name)
    function.restype = ctypes.c_int
    words = [ctypes.c_char_p(os.fsencode(a)) if isinstance(a, str) else ctypes.c_long(a) for a in arguments]
    result = function(*words)
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result


def made(name, contents=b"", mode=0o644):
    with open(name, "wb") as file:
        file.write(contents)
    os.chmod(name, mode)
    return name


def contents(name):
    with open(name, "rb") as file:
        return file.read()


def user(uid, act, groups=(), gid=None):
    """What another user gets."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgroups(list(groups))
        os.setresgid(*(gid or uid,) * 3)
        os.setresuid(uid, uid, uid)
        try:
            answer = repr(act())
        except OSError as error:
            answer = errno.errorcode.get(error.errno, str(error.errno))
        os.write(writing, answer.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        text = answer.read().decode()
    os.waitpid(child, 0)
    return text


def renames():
    NOREPLACE, EXCHANGE = 1, 2
    rename = lambda old, new, flags: call("renameat2", AT_FDCWD, old, AT_FDCWD, new, flags)
    made("a", b"of a"), made("b", b"of b")
    os.mkdir("d")
    made("d/in", b"inside")
    say("no replacement of what is there", lambda: rename("a", "b", NOREPLACE))
    say("to a new name", lambda: (rename("a", "c", NOREPLACE), contents("c"), os.path.exists("a")))
    say("exchanged", lambda: (rename("b", "c", EXCHANGE), contents("b"), contents("c")))
    say("a file and a folder exchanged", lambda: (rename("b", "d", EXCHANGE), contents("d"), contents("b/in")))
    say("exchanged with what is not there", lambda: rename("b", "none", EXCHANGE))
    say("both at once", lambda: rename("b", "d", NOREPLACE | EXCHANGE))
    say("into itself", lambda: os.rename("b", "b/below"))
    say("exchanged with what is below it", lambda: (os.mkdir("b/below"), rename("b", "b/below", EXCHANGE)))
    say("a file onto a folder", lambda: os.rename("d", "b"))
    say("a folder onto a file", lambda: os.rename("b", "d"))
    say("onto a folder that is not empty", lambda: (os.mkdir("e"), os.rename("e", "b")))
    say("two names of one file", lambda: (os.link("d", "d2"), os.rename("d", "d2"), os.path.exists("d"), os.stat("d2").st_nlink))


def holes():
    KEEP, PUNCH, COLLAPSE, ZERO, INSERT = 1, 2, 8, 16, 32
    fd = os.open("f", os.O_RDWR | os.O_CREAT)
    allocate = lambda mode, offset, length: call("fallocate", fd, mode, offset, length)
    shape = lambda: (os.fstat(fd).st_size, [(at, bytes(run[:1])) for at, run in runs(os.pread(fd, 1 << 20, 0))])
    os.pwrite(fd, b"x" * 40960, 0)
    say("given room", lambda: (allocate(0, 40960, 8192), shape()))
    say("given room past the end", lambda: (allocate(KEEP, 65536, 8192), shape()))
    say("a hole", lambda: (allocate(PUNCH | KEEP, 4096, 8192), shape()))
    say("a hole of odd bytes", lambda: (allocate(PUNCH | KEEP, 20481, 100), shape()))
    say("zeros", lambda: (allocate(ZERO, 30000, 100), shape()))
    say("zeros past the end", lambda: (allocate(ZERO, 49152, 4096), shape()))
    say("zeros past the end, its size kept", lambda: (allocate(ZERO | KEEP, 53248, 4096), shape()))
    say("taken out", lambda: (allocate(COLLAPSE, 4096, 4096), shape()))
    say("put in", lambda: (allocate(INSERT, 8192, 4096), shape()))
    say("taken out at an odd place", lambda: allocate(COLLAPSE, 100, 4096))
    say("taken out to its end", lambda: allocate(COLLAPSE, 4096, 1 << 20))
    say("put in past its end", lambda: allocate(INSERT, 1 << 20, 4096))
    say("a hole with its size changed", lambda: allocate(PUNCH, 0, 4096))
    say("no length", lambda: allocate(0, 0, 0))
    reader = os.open("f", os.O_RDONLY)
    say("of who reads", lambda: call("fallocate", reader, 0, 0, 4096))
    os.close(reader), os.close(fd)

    fd = os.open("g", os.O_RDWR | os.O_CREAT)
    os.pwrite(fd, b"y" * 65536, 0)
    os.pwrite(fd, b"z" * 65536, 1 << 20)
    os.ftruncate(fd, 3 << 20)
    os.fsync(fd)
    for at in [0, 65535, 65536, 500_000, 1 << 20, (1 << 20) + 65536, (3 << 20) - 1, 3 << 20]:
        say(f"data from {at}", lambda: os.lseek(fd, at, os.SEEK_DATA))
        say(f"a hole from {at}", lambda: os.lseek(fd, at, os.SEEK_HOLE))
    call("fallocate", fd, PUNCH | KEEP, 0, 32768)
    say("data after a hole was made", lambda: os.lseek(fd, 0, os.SEEK_DATA))
    os.close(fd)


def runs(text):
    """Where runs of one byte begin."""
    start = 0
    for at in range(1, len(text) + 1):
        if at == len(text) or text[at] != text[start]:
            yield start, text[start:at]
            start = at


def writers():
    def append(letter):
        fd = os.open("log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        for _ in range(500):
            os.write(fd, letter * 15 + b"\n")
        os._exit(0)
    children = []
    for letter in [b"a", b"b", b"c"]:
        child = os.fork()
        if child == 0:
            append(letter)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    lines = contents("log").splitlines()
    say("three who append", lambda: sorted((line, lines.count(line)) for line in set(lines)))
    fd = os.open("log", os.O_WRONLY | os.O_APPEND)
    say("a place does not matter to who appends", lambda: (os.pwrite(fd, b"end\n", 0), contents("log")[-4:]))
    os.close(fd)

    page = mmap.mmap(-1, 8192)
    page.write(b"d" * 8192)
    direct = os.open("direct", os.O_RDWR | os.O_CREAT | os.O_DIRECT)
    cached = os.open("direct", os.O_RDWR)
    say("past the page cache", lambda: os.pwritev(direct, [page], 0))
    say("seen through it", lambda: os.pread(cached, 10, 8180))
    os.pwrite(cached, b"c" * 100, 50)
    back = mmap.mmap(-1, 4096)
    say("and the other way", lambda: (os.preadv(direct, [back], 0), back[45:55], back[145:155]))
    with mmap.mmap(cached, 8192) as mapped:
        mapped[4096:4100] = b"mmap"
        mapped.flush()
        say("what a mapping wrote", lambda: (os.preadv(direct, [back], 4096), back[:6]))
        page.seek(0)
        page.write(b"e" * 8192)
        os.pwritev(direct, [page], 0)
        say("what a mapping sees", lambda: mapped[4094:4100])
    say("past the end", lambda: os.preadv(direct, [back], 16384))
    both = os.open("both", os.O_RDWR | os.O_CREAT | os.O_DIRECT | os.O_DSYNC)
    say("and on storage", lambda: (os.pwritev(both, [page], 4096), os.fstat(both).st_size, contents("both")[4094:4098]))
    say("of what was cut off", lambda: (os.ftruncate(both, 5000), os.ftruncate(both, 8192), contents("both")[4998:5002]))
    for fd in [direct, cached, both]:
        os.close(fd)
    a, b = os.open(made("source", b"0123456789abcdef" * 4), os.O_RDONLY), os.open("copy", os.O_RDWR | os.O_CREAT)
    say("copied within the kernel", lambda: (os.copy_file_range(a, b, 16, 0, 8), os.pread(b, 20, 0)))
    say("sent", lambda: (os.sendfile(b, a, 16, 16), os.fstat(b).st_size))
    say("shared extents", lambda: fcntl.ioctl(b, 0x40049409, a))
    os.close(a), os.close(b)


def unnamed():
    fd = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o640)
    os.write(fd, b"unnamed")
    say("no name", lambda: (os.fstat(fd).st_nlink, [n for n in os.listdir(".") if "unnamed" in n]))
    say("a name", lambda: (call("linkat", AT_FDCWD, f"/proc/self/fd/{fd}", AT_FDCWD, "named", 0x400), contents("named")))
    say("as it was made", lambda: (os.fstat(fd).st_nlink, oct(os.stat("named").st_mode)))
    os.close(fd)
    fd = os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_EXCL)
    say("never a name", lambda: call("linkat", AT_FDCWD, f"/proc/self/fd/{fd}", AT_FDCWD, "never", 0x400))
    os.close(fd)
    say("without writing", lambda: os.open(".", os.O_TMPFILE | os.O_RDONLY))
    made("open", b"still there")
    fd = os.open("open", os.O_RDWR)
    os.unlink("open")
    say("removed while it is open", lambda: (os.fstat(fd).st_nlink, os.pwrite(fd, b"S", 0), os.pread(fd, 20, 0)))
    again = os.open(f"/proc/self/fd/{fd}", os.O_RDWR)
    say("opened again by its number", lambda: (os.pwrite(again, b"T", 1), os.pread(fd, 20, 0)))
    say("and never linked again", lambda: call("linkat", AT_FDCWD, f"/proc/self/fd/{fd}", AT_FDCWD, "back", 0x400))
    os.close(fd), os.close(again)


def acl(*entries):
    """The kernel's form: tag, permissions, whose."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", tag, bits, whose) for tag, bits, whose in entries)


def entries(text):
    return [struct.unpack_from("<HHI", text, at) for at in range(4, len(text), 8)]


def access_lists():
    OWNER, USER, GROUP_OWNER, OF_GROUP, MASK, OTHERS, NONE = 1, 2, 4, 8, 16, 32, 0xFFFFFFFF
    name = "system.posix_acl_access"
    made("f", b"listed", 0o600)
    say("none there", lambda: os.getxattr("f", name))
    for_other = acl((OWNER, 6, NONE), (USER, 4, OTHER), (GROUP_OWNER, 0, NONE), (MASK, 4, NONE), (OTHERS, 0, NONE))
    say("closed to him", lambda: user(OTHER, lambda: contents("f")))
    say("set", lambda: (os.setxattr("f", name, for_other), oct(os.stat("f").st_mode), entries(os.getxattr("f", name))))
    say("open to him", lambda: user(OTHER, lambda: contents("f")))
    say("not to write", lambda: user(OTHER, lambda: os.open("f", os.O_WRONLY)))
    say("nor to another", lambda: user(MEMBER, lambda: contents("f")))
    say("the mask is the group's bits", lambda: (os.chmod("f", 0o600), entries(os.getxattr("f", name))))
    say("closed again", lambda: user(OTHER, lambda: contents("f")))
    say("what bits alone say is no list", lambda: (os.setxattr("f", name, acl((OWNER, 6, NONE), (GROUP_OWNER, 4, NONE), (OTHERS, 4, NONE))), oct(os.stat("f").st_mode), os.listxattr("f")))
    say("without a mask", lambda: os.setxattr("f", name, acl((OWNER, 6, NONE), (USER, 4, OTHER), (GROUP_OWNER, 0, NONE), (OTHERS, 0, NONE))))
    say("in no order", lambda: os.setxattr("f", name, acl((OTHERS, 6, NONE), (OWNER, 4, NONE), (GROUP_OWNER, 0, NONE))))
    say("of a strange form", lambda: os.setxattr("f", name, b"\x02\0\0"))
    say("by who does not own it", lambda: user(OTHER, lambda: os.setxattr("f", name, for_other)))
    os.mkdir("d", 0o755)
    default = "system.posix_acl_default"
    inherited = acl((OWNER, 7, NONE), (USER, 7, OTHER), (GROUP_OWNER, 5, NONE), (OF_GROUP, 6, GROUP), (MASK, 7, NONE), (OTHERS, 5, NONE))
    say("by default", lambda: os.setxattr("d", default, inherited))
    say("of a file there is none by default", lambda: os.setxattr("f", default, inherited))
    os.umask(0o077)
    made_there = os.open("d/file", os.O_CREAT | os.O_WRONLY, 0o664)
    os.close(made_there)
    os.mkdir("d/folder", 0o775)
    os.umask(0o022)
    say("a file inherits, whatever the umask", lambda: (oct(os.stat("d/file").st_mode), entries(os.getxattr("d/file", name))))
    say("a folder inherits, and hands on", lambda: (oct(os.stat("d/folder").st_mode), entries(os.getxattr("d/folder", default)), entries(os.getxattr("d/folder", name))))
    say("a group of the list", lambda: user(MEMBER, lambda: os.open("d/file", os.O_RDWR) > 0, groups=[GROUP]))
    say("not of it", lambda: user(MEMBER, lambda: os.open("d/file", os.O_RDWR)))
    say("taken away", lambda: (os.removexattr("d", default), os.listxattr("d")))
    os.symlink("f", "l")
    say("of a link", lambda: os.setxattr("l", name, for_other, follow_symlinks=False))


def owners():
    os.mkdir("g", 0o777)
    os.chmod("g", 0o2777), os.chown("g", -1, GROUP)
    def make():
        os.close(os.open("g/file", os.O_CREAT | os.O_WRONLY, 0o2755))
        os.mkdir("g/folder", 0o755)
    say("made in a folder of a group", lambda: user(OTHER, make))
    say("they are the group's", lambda: [(os.stat(n).st_gid, os.stat(n).st_uid, oct(os.stat(n).st_mode)) for n in ["g/file", "g/folder"]])
    made("s", b"x")
    os.chown("s", OTHER, OTHER)
    os.chmod("s", 0o6755)
    say("who writes takes privileges away", lambda: (user(OTHER, lambda: os.write(os.open("s", os.O_WRONLY), b"y")), oct(os.stat("s").st_mode)))
    os.chmod("s", 0o6755)
    say("who truncates, too", lambda: (user(OTHER, lambda: os.truncate("s", 0)), oct(os.stat("s").st_mode)))
    os.chmod("s", 0o6755)
    say("a new owner has none", lambda: (os.chown("s", MEMBER, MEMBER), oct(os.stat("s").st_mode)))
    say("given to a group that is not one's own", lambda: user(MEMBER, lambda: os.chown("s", -1, GROUP)))
    say("to one's own", lambda: (user(MEMBER, lambda: os.chown("s", -1, GROUP), groups=[GROUP]), os.stat("s").st_gid))
    say("given away", lambda: user(MEMBER, lambda: os.chown("s", OTHER, -1)))
    say("setgid by who is not of the group", lambda: (user(MEMBER, lambda: os.chmod("s", 0o2755)), oct(os.stat("s").st_mode)))
    os.mkdir("t", 0o777)
    os.chmod("t", 0o1777)
    say("in a folder where all may write", lambda: user(OTHER, lambda: os.close(os.open("t/his", os.O_CREAT | os.O_WRONLY, 0o666))))
    say("others do not remove", lambda: user(MEMBER, lambda: os.unlink("t/his")))
    say("nor rename", lambda: user(MEMBER, lambda: os.rename("t/his", "t/mine")))
    made("closed", b"root's", 0o644)
    def again():
        fd = os.open("closed", os.O_RDONLY)
        return os.open(f"/proc/self/fd/{fd}", os.O_WRONLY)
    say("opened again for more", lambda: user(OTHER, again))
    os.mkdir("private", 0o700)
    made("private/in", b"seen", 0o644)
    inside = os.open("private", os.O_RDONLY)
    say("by a descriptor of a closed folder", lambda: user(OTHER, lambda: os.open("in", os.O_RDONLY, dir_fd=inside)))
    found = os.open("closed", os.O_PATH)
    say("what was only found is not read", lambda: os.read(found, 10))
    say("nor opened for more", lambda: user(OTHER, lambda: os.open(f"/proc/self/fd/{found}", os.O_WRONLY)))
    os.mkdir("removed")
    gone = os.open("removed", os.O_RDONLY)
    os.rmdir("removed")
    say("a folder that is gone", lambda: (os.listdir(gone), os.fstat(gone).st_nlink))
    say("nothing is made in it", lambda: os.open("x", os.O_CREAT | os.O_WRONLY, dir_fd=gone))
    say("access as another", lambda: user(OTHER, lambda: (os.access("closed", os.R_OK), os.access("closed", os.W_OK), os.access("private/in", os.R_OK))))
    for fd in [inside, found, gone]:
        os.close(fd)


def locks():
    made("l", b"lock")
    def held(lock):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            fd = os.open("l", os.O_RDWR)
            lock(fd)
            os.write(writing, b"x")
            time.sleep(100)
        os.read(reading, 1)
        os.close(reading), os.close(writing)
        return child
    mine = os.open("l", os.O_RDWR)
    child = held(lambda fd: fcntl.flock(fd, fcntl.LOCK_EX))
    say("locked by another", lambda: fcntl.flock(mine, fcntl.LOCK_SH | fcntl.LOCK_NB))
    os.kill(child, 9), os.waitpid(child, 0)
    say("who is gone", lambda: fcntl.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB))
    fcntl.flock(mine, fcntl.LOCK_UN)
    child = held(lambda fd: fcntl.lockf(fd, fcntl.LOCK_EX, 2, 1))
    say("a part of it", lambda: fcntl.lockf(mine, fcntl.LOCK_EX | fcntl.LOCK_NB, 2, 2))
    say("another part", lambda: fcntl.lockf(mine, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 3))
    os.kill(child, 9), os.waitpid(child, 0)
    say("all of it", lambda: fcntl.lockf(mine, fcntl.LOCK_EX | fcntl.LOCK_NB))
    os.close(mine)


def attributes():
    made("f")
    say("new", lambda: (os.setxattr("f", "user.a", b"1", os.XATTR_CREATE), os.getxattr("f", "user.a")))
    say("new again", lambda: os.setxattr("f", "user.a", b"2", os.XATTR_CREATE))
    say("another value", lambda: (os.setxattr("f", "user.a", b"3" * 500, os.XATTR_REPLACE), len(os.getxattr("f", "user.a"))))
    say("none to replace", lambda: os.setxattr("f", "user.b", b"2", os.XATTR_REPLACE))
    say("an empty one", lambda: (os.setxattr("f", "user.empty", b""), os.getxattr("f", "user.empty"), sorted(os.listxattr("f"))))
    say("of no class", lambda: os.setxattr("f", "strange.a", b""))
    say("without a name", lambda: os.setxattr("f", "user.", b""))
    say("too little room", lambda: call("getxattr", "f", "user.a", 0, 0))
    say("trusted ones are root's", lambda: (os.setxattr("f", "trusted.a", b"t"), user(OTHER, lambda: [n for n in os.listxattr("f") if n.startswith("trusted")])))
    say("and of no other", lambda: user(OTHER, lambda: os.getxattr("f", "trusted.a")))
    os.symlink("f", "l")
    say("of a link", lambda: os.setxattr("l", "user.a", b"", follow_symlinks=False))
    say("taken away", lambda: (os.removexattr("f", "user.a"), os.removexattr("f", "user.empty"), [n for n in os.listxattr("f") if n.startswith("user")]))
    say("twice", lambda: os.removexattr("f", "user.a"))


def names():
    say("a name of 255 bytes", lambda: (made("n" * 255), os.path.exists("n" * 255))[1])
    say("of 256", lambda: made("n" * 256))
    say("a link of 4,095 bytes", lambda: (os.symlink("t" * 4095, "long"), len(os.readlink("long"))))
    say("of 4,096", lambda: os.symlink("t" * 4096, "longer"))
    say("a pipe, a socket, a device", lambda: [special(n) for n in ["pipe", "socket", "device"]])
    os.mkdir("d")
    say("a folder has one name", lambda: os.link("d", "d2"))
    say("nor is it unlinked", lambda: os.unlink("d"))
    say("made twice", lambda: os.mkdir("d"))
    made("d/f")
    say("not empty", lambda: os.rmdir("d"))
    say("itself", lambda: os.rmdir("d/."))
    say("below a file", lambda: os.mkdir("d/f/x"))
    os.symlink("nowhere", "dangling")
    say("new where a link is", lambda: os.open("dangling", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    say("through it", lambda: (os.close(os.open("dangling", os.O_CREAT | os.O_WRONLY)), os.path.exists("nowhere")))
    say("no link", lambda: os.open("dangling", os.O_RDONLY | os.O_NOFOLLOW))
    say("no folder", lambda: os.open("d/f", os.O_RDONLY | os.O_DIRECTORY))
    say("a folder to write", lambda: os.open("d", os.O_WRONLY))
    os.symlink("round", "round")
    say("round and round", lambda: os.open("round", os.O_RDONLY))
    say("names are bytes", lambda: (made(b"\xff\xfe"), sorted(n for n in os.listdir(b".") if n[0] > 127))[1])
    say("links of a folder", lambda: (os.mkdir("d/e"), os.stat("d").st_nlink, os.rmdir("d/e"), os.stat("d").st_nlink))
    say("the longest name", lambda: os.statvfs(".").f_namemax)


def special(name):
    kinds = {"pipe": stat.S_IFIFO, "socket": stat.S_IFSOCK, "device": stat.S_IFCHR}
    os.mknod(name, kinds[name] | 0o600, os.makedev(7, 300))
    about = os.lstat(name)
    return stat.S_IFMT(about.st_mode) == kinds[name], about.st_rdev if name == "device" else 0


def times():
    made("f", b"x" * 10)
    for seconds, part in [(0, 0), (1, 999_999_999), (-1, 5), (2**31, 7), (2**33, 123_456_789)]:
        say(f"{seconds} s {part} ns", lambda: (os.utime("f", ns=(seconds * 10**9 + part, seconds * 10**9 + part)), os.stat("f").st_mtime_ns, os.stat("f").st_atime_ns))
    class Spec(ctypes.Structure):
        _fields_ = [("seconds", ctypes.c_long), ("part", ctypes.c_long)]
    NOW, OMIT = (1 << 30) - 1, (1 << 30) - 2
    def set_times(access, change):
        both = (Spec * 2)(Spec(access, 0) if access < OMIT else Spec(0, access), Spec(change, 0) if change < OMIT else Spec(0, change))
        if libc.utimensat(AT_FDCWD, b"f", ctypes.byref(both), 0):
            raise OSError(ctypes.get_errno(), "utimensat")
        return os.stat("f").st_atime_ns, os.stat("f").st_mtime_ns
    say("both", lambda: set_times(100, 200))
    say("one left as it is", lambda: set_times(OMIT, 300))
    say("one of now", lambda: (set_times(400, NOW)[0], abs(time.time() - os.stat("f").st_mtime) < 100))
    os.utime("f", (1, 1))
    before = os.stat("f").st_ctime_ns
    time.sleep(0.02)
    moved = lambda act: (act(), os.stat("f").st_mtime > 1, os.stat("f").st_ctime_ns > before)[1:]
    say("its mode", lambda: moved(lambda: os.chmod("f", 0o600)))
    say("another name", lambda: moved(lambda: os.link("f", "g")))
    say("its bytes", lambda: moved(lambda: os.truncate("f", 5)))
    os.mkdir("d")
    def folder(act):
        os.utime("d", (1, 1))
        act()
        return os.stat("d").st_mtime > 1
    say("a folder, by a new name", lambda: folder(lambda: made("d/a")))
    say("by one renamed", lambda: folder(lambda: os.rename("d/a", "d/b")))
    say("not by a write below it", lambda: folder(lambda: os.truncate("d/b", 100)))
    say("by one removed", lambda: folder(lambda: os.unlink("d/b")))
    say("by who does not own it", lambda: user(OTHER, lambda: os.utime("f", (1, 1))))


def listings():
    """Names that are there all the time are seen once, whatever is made, renamed and removed meanwhile, and places stay places."""
    libc.opendir.restype = libc.readdir.restype = ctypes.c_void_p
    libc.telldir.restype = ctypes.c_long
    os.mkdir("many")
    stay = {f"stay-{number}" for number in range(1500)}
    for name in stay:
        made(f"many/{name}")
    for number in range(500):
        made(f"many/go-{number}")
    folder = ctypes.c_void_p(libc.opendir(b"many"))
    def next_name():
        entry = libc.readdir(folder)
        # d_ino, d_off, d_reclen, d_type, then the name.
        return ctypes.string_at(entry + 19).decode() if entry else None
    seen, places = [], []
    while True:
        if len(seen) % 50 == 0:
            places.append((ctypes.c_long(libc.telldir(folder)), len(seen)))
        name = next_name()
        if name is None:
            break
        seen.append(name)
        step = len(seen)
        if step % 4 == 0 and step // 4 < 500:
            os.unlink(f"many/go-{step // 4}")
            made(f"many/new-{step}")
            os.rename(f"many/new-{step}", f"many/newer-{step}")
    say("each once", lambda: sorted(name for name in seen if name in stay) == sorted(stay))
    # What stayed comes after a place in the same order as it did then.
    def again(place, before):
        libc.seekdir(folder, place)
        rest = []
        while (name := next_name()) is not None:
            rest.append(name)
        return [n for n in rest if n in stay] == [n for n in seen[before:] if n in stay]
    say("from places that were kept", lambda: all(again(*place) for place in places))
    libc.closedir(folder)


for part in [renames, holes, writers, unnamed, access_lists, owners, locks, attributes, names, times, listings]:
    print(f"# {part.__name__}")
    os.mkdir(part.__name__)
    os.chdir(part.__name__)
    part()
    os.chdir("..")
