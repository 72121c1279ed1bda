"""The drive that the current folder lies on, and what of files is in memory."""

import contextlib, os, signal, subprocess, sys


def cold(paths):
    """Takes the pages of files, and of all files below folders, out of memory."""
    for path in paths:
        if os.path.isdir(path):
            cold(os.path.join(path, name) for name in os.listdir(path))
            continue
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def number():
    """The device's numbers, MAJOR:MINOR."""
    return subprocess.run(["findmnt", "-no", "MAJ:MIN", "-T", "."], capture_output=True, text=True, check=True).stdout.strip()


@contextlib.contextmanager
def read_ahead(kib):
    """Sets the drive's window, and puts it back, however the program ends. Gives a function that sets another one meanwhile."""
    if kib is None:
        yield None
        return
    path = f"/sys/class/bdi/{number()}/read_ahead_kb"

    def set_to(kib):
        with open(path, "w") as window:
            window.write(str(kib))

    with open(path) as before:
        kept = before.read()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    try:
        set_to(kib)
        yield set_to
    finally:
        set_to(kept)
