#!/usr/bin/env python3
"""Programs with and without `plumb prefetch run`, live: the wall time of the whole process, load time inside.

    bench/prefetch/run.py PLUMB FOLDER [--runs 7] [--mapped 8] [--keys 400000] [--read-ahead KIB] [--only WORD]...

FOLDER lies on the drive that is meant and is filled once (the mapped file, a database of db_bench). Each case is run with and without in turn,
each time from cold pages of its own files (but for what is in memory by its name); which of the two comes first changes, and cases come in an order drawn anew for each round. Medians,
ranges, the median ratio of a pair and its interval of 95 % (bootstrap over pairs) are printed as a table, and outputs of both have to be the same.
Needs python3, gcc and, for the database, db_bench. Run it on an idle machine.
"""

import argparse, hashlib, os, random, shutil, statistics, subprocess, sys, time

from drive import cold, read_ahead

MIB = 1 << 20
PROBE = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
enum { PIECE = 16384 };
static unsigned long sum;
static char piece[PIECE];
static void take(int fd, long at) {
    if (pread(fd, piece, PIECE, at) == PIECE) sum = sum * 31 + *(unsigned long *)(piece + 64);
}
int main(int count, char **words) {
    int fd = open(words[2], O_RDONLY);
    struct stat status;
    if (count < 3 || fstat(fd, &status)) return 1;
    long size = status.st_size;
    const char *how = words[1];
    unsigned long place = 1;
    if (!strcmp(how, "forward")) for (long at = 0; at + PIECE <= size; at += PIECE) take(fd, at);
    if (!strcmp(how, "strided")) for (long at = 0; at + PIECE <= size; at += 16 * PIECE) take(fd, at);
    if (!strcmp(how, "backward")) for (long at = size - PIECE; at >= 0; at -= PIECE) take(fd, at);
    if (!strcmp(how, "random")) for (int read = 0; read < 4000; read++) {
        place = place * 6364136223846793005UL + 1442695040888963407UL;
        take(fd, (long)((place >> 20) % (unsigned long)(size / PIECE)) * PIECE);
    }
    if (!strcmp(how, "itself")) for (long at = 0; at + PIECE <= size; at += PIECE) {
        if (at % (1 << 20) == 0) posix_fadvise(fd, at, 2 << 20, POSIX_FADV_WILLNEED);
        take(fd, at);
    }
    if (!strcmp(how, "mapped")) {
        unsigned char *all = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (all == MAP_FAILED) return 1;
        for (long at = 0; at < size; at += 4096) sum = sum * 31 + all[at];
    }
    printf("%lx\n", sum);
    return 0;
}
"""


def timed(words, files):
    cold(files())
    begun = time.monotonic()
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    took = time.monotonic() - begun
    if done.returncode:
        sys.exit(f"{words} ended with {done.returncode}")
    return took, done.stdout


def interval(pairs):
    """The middle 95 % of the median ratio of a pair, over pairs drawn again and again: one run that met something else counts once."""
    drawn = random.Random(1)
    ratios = []
    for _ in range(2000):
        some = [drawn.choice(pairs) for _ in pairs]
        ratios.append(statistics.median(plain / ours for plain, ours in some))
    ratios.sort()
    return ratios[50], ratios[1949]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plumb")
    parser.add_argument("folder")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--mapped", type=float, default=8, help="GiB of the mapped file")
    parser.add_argument("--keys", type=int, default=400_000, help="values of 5,000 bytes in the database")
    parser.add_argument("--read-ahead", type=int, metavar="KIB", help="the drive's read_ahead_kb meanwhile; needs root")
    parser.add_argument("--only", action="append", default=[], help="cases whose name has this word; can be given again")
    arguments = parser.parse_args()
    plumb = os.path.abspath(arguments.plumb)
    os.makedirs(arguments.folder, exist_ok=True)
    os.chdir(arguments.folder)
    with open("probe.c", "w") as out:
        out.write(PROBE)
    subprocess.run(["gcc", "-O1", "-w", "-o", "probe", "probe.c"], check=True)

    def file(name, size):
        if not os.path.exists(name) or os.path.getsize(name) != size:
            with open(name, "wb") as out:
                for at in range(0, size, 8 * MIB):
                    out.write(random.Random(at).randbytes(min(8 * MIB, size - at)))
        return name

    is_meant = lambda name: not arguments.only or any(word in name for word in arguments.only)
    cases = []
    data = file("data", 512 * MIB)
    for how in ["forward", "strided", "backward", "random"]:
        cases.append((f"{how} 16 KiB of 512 MiB", "predict+opt", ["./probe", how, data], lambda: [data]))
    # What has nothing to gain.
    cases.append(("prefetches itself, 512 MiB", "predict+opt", ["./probe", "itself", data], lambda: [data]))
    kept = file("kept", 1024 * MIB)
    with open(kept, "rb") as warm:
        while warm.read(8 * MIB):
            pass
    cases.append(("in memory, 1 GiB", "predict+opt", ["./probe", "forward", kept], lambda: []))
    if not os.path.isdir("short"):
        os.mkdir("short.new")
        for index in range(4000):
            with open(f"short.new/{index}", "wb") as out:
                out.write(random.Random(index).randbytes(8192))
        os.rename("short.new", "short")
    short = lambda: [f"short/{index}" for index in range(4000)]
    cases.append(("4000 files of 8 KiB", "predict+opt", ["sh", "-c", "cat short/* | sha256sum"], short))
    if is_meant("forward 16 KiB of 4 GiB"):
        # Where starting the launcher is a small part.
        long = file("long", 4096 * MIB)
        cases.append(("forward 16 KiB of 4 GiB", "predict+opt", ["./probe", "forward", long], lambda: [long]))
    cases.append(("random 16 KiB of 512 MiB", "budget", ["./probe", "random", data], lambda: [data]))
    if is_meant("mapped in order, 8 GiB"):
        weights = file("weights", int(arguments.mapped * 1024) * MIB)
        words = ["./probe", "mapped", weights]
        cases.append((f"mapped in order, {arguments.mapped:g} GiB", "predict+opt", words, lambda: [weights]))
    if shutil.which("db_bench") and (not arguments.only or any("read" in word or "db_bench" in word for word in arguments.only)):
        common = ["db_bench", "--db=db", f"--num={arguments.keys}", "--value_size=5000", "--compression_type=none", "--seed=1"]
        if not os.path.exists(f"db-{arguments.keys}.ready"):
            shutil.rmtree("db", ignore_errors=True)
            subprocess.run([*common, "--benchmarks=fillseq,compact", "--disable_wal=true"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            open(f"db-{arguments.keys}.ready", "w").close()
        tables = lambda: [entry.path for entry in os.scandir("db") if entry.is_file()]
        for name, mode, reads in [
            ("readreverse", "predict+opt", 40_000),
            ("readseq", "predict+opt", 40_000),
            ("readrandom", "predict+opt", 40_000),
            ("readrandom", "budget", 500_000),
            ("readrandom", "budget", 200_000),
            ("readrandom", "budget", 40_000),
            ("readrandom", "budget", 10_000),
            ("multireadrandom", "budget", 40_000),
        ]:
            words = [*common, "--use_existing_db=1", f"--benchmarks={name}", f"--reads={reads}", "--threads=4"]
            cases.append((f"db_bench {name}, 4 x {reads}", mode, words, tables))
    cases = [case for case in cases if is_meant(case[0])]

    with read_ahead(arguments.read_ahead):
        pairs = measure(plumb, cases, arguments.runs)
    print("| case | mode | plain | prefetched | gain | 95 % |\n|---|---|--:|--:|--:|---|")
    for index, (name, mode, _, _) in enumerate(cases):
        spread = lambda way: [pair[way] for pair in pairs[index]]
        told = lambda times: f"{statistics.median(times):.3f} s ({min(times):.3f} to {max(times):.3f})"
        low, high = interval(pairs[index])
        gain = statistics.median(plain / ours for plain, ours in pairs[index])
        print(f"| {name} | {mode} | {told(spread(0))} | {told(spread(1))} | {gain:.2f}x | {low:.2f} to {high:.2f} |")


def measure(plumb, cases, runs):
    """Pairs of times of each case, without and with."""
    pairs = {index: [] for index in range(len(cases))}
    for turn in range(runs):
        order = list(pairs)
        random.shuffle(order)
        for index in order:
            name, mode, words, files = cases[index]
            ways = [words, [plumb, "prefetch", "run", "--quiet", "--mode", mode, "--", *words]]
            first = random.randrange(2)
            results = {way: timed(ways[way], files) for way in (first, 1 - first)}
            # db_bench prints its times.
            if words[0] == "./probe" and results[0][1] != results[1][1]:
                sys.exit(f"{name}: another output, {hashlib.sha256(results[1][1]).hexdigest()}")
            pairs[index].append((results[0][0], results[1][0]))
        print(f"round {turn + 1} of {runs}, load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    return pairs


if __name__ == "__main__":
    main()
