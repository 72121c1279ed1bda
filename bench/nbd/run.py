#!/usr/bin/env python3
"""Measures serving over NBD with fio, beside nbdkit's memory plugin.

    cargo build --release -p plumb-serve --example fixed_latency
    bench/nbd/run.py [--rounds N] [--seconds S] [--prefix 'chrt -r 20']

Prints the two tables of BENCHMARKS.md, section "Serving over NBD": the error
added at queue depth 1 to devices of fixed latency, and I/Os per second at queue
depth 32. Rounds alternate between servers, so that what else runs on the
machine meets all of them; figures are medians over rounds. Needs fio with its
nbd engine; nbdkit is left out where it is not installed.
"""

import argparse
import json
import os
import shlex
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
SERVER = TARGET / "release" / "examples" / "fixed_latency"


def serve(command, path):
    """Starts a server and waits until it greets a client: Plumb calibrates first,
    which a client that starts up meanwhile would disturb."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 20
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(path)
                if client.recv(8) == b"NBDMAGIC":
                    return process
        except (FileNotFoundError, ConnectionRefusedError):
            time.sleep(0.02)
    raise SystemExit(f"{command[0]} does not come up")


def fio(arguments, path, rw, depth):
    """One fio job; its report on the one direction it used."""
    command = shlex.split(arguments.prefix) + [
        "fio", "--name=bench", "--ioengine=nbd", f"--uri=nbd+unix:///?socket={path}", f"--rw={rw}", "--bs=4k",
        f"--iodepth={depth}", "--size=256m", "--norandommap", "--time_based", f"--runtime={arguments.seconds}",
        "--ramp_time=1", "--lat_percentiles=1", "--clat_percentiles=0", "--output-format=json",
    ]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    job = json.loads(output[output.index("{"):])["jobs"][0]
    return job["write" if rw.endswith("write") else "read"]


def percentile_us(result, percent):
    return result["lat_ns"]["percentile"][f"{percent:.6f}"] / 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--prefix", default="", help="put before every command, such as `chrt -r 20`")
    arguments = parser.parse_args()
    prefix = shlex.split(arguments.prefix)

    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/nbd.sock"

        def plumb(latency, spin):
            return prefix + [str(SERVER), "nbd", f"unix:{path}", latency, "1GiB", spin]

        nbdkit = prefix + ["nbdkit", "-f", "-U", path, "memory", "1G"]
        shallow = [(f"{us} us, spin {spin} us", us, plumb(f"{us}us", f"{spin}us")) for us in (80, 200) for spin in (0, 30)]
        deep = [("Plumb, 10 us device", plumb("10us", "0us"))]
        if shutil.which("nbdkit"):
            shallow.append(("nbdkit memory (no latency)", 0, nbdkit))
            deep.append(("nbdkit memory", nbdkit))
        added = {name: [] for name, _, _ in shallow}
        rates = {name: [] for name, _ in deep}

        for _ in range(arguments.rounds):
            for name, modelled_us, command in shallow:
                server = serve(command, path)
                result = fio(arguments, path, "randread", 1)
                added[name].append([percentile_us(result, percent) - modelled_us for percent in (50, 99)])
                server.send_signal(signal.SIGTERM)
                server.wait()
                Path(path).unlink(missing_ok=True)
            for name, command in deep:
                server = serve(command, path)
                # Writes first: they also make the memory that reads then find.
                rate = {rw: fio(arguments, path, rw, 32)["iops"] for rw in ("randwrite", "randread")}
                rates[name].append([rate["randread"], rate["randwrite"]])
                server.send_signal(signal.SIGTERM)
                server.wait()
                Path(path).unlink(missing_ok=True)

    print(f"load average {os.getloadavg()[0]:.1f}\n")
    print("| device, queue depth 1 | added p50 | range of p50 | added p99 |\n|---|--:|--:|--:|")
    for name, rows in added.items():
        medians, tails = [row[0] for row in rows], [row[1] for row in rows]
        print(f"| {name} | {statistics.median(medians):+.1f} us | {min(medians):+.1f} to {max(medians):+.1f} | "
              f"{statistics.median(tails):+.0f} us |")
    print("\n| server, queue depth 32 | random read | random write |\n|---|--:|--:|")
    for name, rows in rates.items():
        reads, writes = (statistics.median(column) for column in zip(*rows))
        print(f"| {name} | {reads:,.0f}/s | {writes:,.0f}/s |")


if __name__ == "__main__":
    main()
