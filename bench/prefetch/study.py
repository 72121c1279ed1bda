#!/usr/bin/env python3
"""The experiments of the CrossPrefetch study, live: each spec's own commands, with and without the library, on a real drive.

    bench/prefetch/study.py PLUMB FOLDER SPEC.toml... [--runs 5] [--cold-only] [--prepare-each]

FOLDER lies on the drive that is meant. Of each spec the sweep of `workload.variables` and of `library` is taken; what a spec says of a device, a file system,
memory or charges is not. `prepare` is done once for the same variables, in a folder of its own that `measure` finds as its working directory and
PLUMB_MOUNT. Each round runs every library of a point in an order drawn anew, from cold pages of the folder and then once more with what that has left in
memory. Medians of the whole process's time and the ratio to `without` are printed; where the spec has a metric that ends in `_sum` or
`_hash`, it has to be the same for all of them. The kernel's read-ahead of the drive is put back at the end. Needs root. Run it on an idle machine.
"""

import argparse, itertools, json, os, random, re, shutil, statistics, subprocess, sys, tempfile, time
import tomllib

from drive import cold, number, read_ahead


def points(spec):
    """The variables of each point of the sweep but its library."""
    before, fixed = [], spec["workload"].get("variables", {})
    dimensions = [[(name, value) for value in values] for name, values in spec["sweep"].items() if name != "library"]
    for chosen in itertools.product(*dimensions):
        variables = dict(fixed)
        for name, value in chosen:
            if name.startswith("workload.variables."):
                variables[name.rsplit(".", 1)[1]] = value
            else:
                changed = spec.get("variants", {}).get(name, {}).get(value, {}).get("workload", {})
                variables |= changed.get("variables", {})
        # What the points differ in beside is of the model.
        if variables not in before:
            before.append(variables)
            yield variables


def contents(spec, output):
    """What identifies the bytes that a program has seen."""
    found = {}
    for name, how in spec["workload"]["program"].get("metrics", {}).items():
        if not name.endswith(("_sum", "_hash")):
            continue
        if "json" in how:
            last = [line for line in output.splitlines() if line.startswith("{")][-1]
            found[name] = json.loads(last)[how["json"].strip("/")]
        else:
            found[name] = re.findall(how["regex"], output)[-1]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plumb")
    parser.add_argument("folder")
    parser.add_argument("specs", nargs="+")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--cold-only", action="store_true")
    parser.add_argument("--prepare-each", action="store_true", help="for programs that change their files")
    arguments = parser.parse_args()
    plumb = os.path.abspath(arguments.plumb)
    os.makedirs(arguments.folder, exist_ok=True)
    specs = [(os.path.basename(path), tomllib.load(open(path, "rb"))) for path in arguments.specs]
    os.chdir(arguments.folder)
    mount = number()
    drawn = random.Random(1)
    print("| spec | variables | pages | library | median s (range) | to `without` |\n|---|---|---|---|--:|--:|", flush=True)
    with read_ahead(128) as set_window, tempfile.TemporaryDirectory(dir=".") as scratch:
        for name, spec in specs:
            program = spec["workload"]["program"]
            libraries = spec["sweep"]["library"]
            for variables in points(spec):
                # The device of a folder that is no mount of its own is the drive's.
                place = os.path.abspath(os.path.join(scratch, "point"))
                shutil.rmtree(place, ignore_errors=True)
                os.mkdir(place)
                environment = os.environ | {key: str(value) for key, value in variables.items()}
                environment |= {"PLUMB_MOUNT": place, "PATH": os.path.dirname(plumb) + ":" + os.environ["PATH"]}
                def shell(script, prefix=()):
                    script = script.replace("$(mountpoint -d $PLUMB_MOUNT)", mount)
                    words = [*prefix, "sh", "-e", "-c", script]
                    done = subprocess.run(words, cwd=place, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                    if done.returncode:
                        sys.exit(f"{name}, {variables}: {done.stderr[-2000:]}")
                    return done.stdout
                # A spec's commands may have set their own.
                set_window(128)
                shell(program.get("prepare", ""))
                times, seen = {}, None
                for _ in range(arguments.runs):
                    for library in drawn.sample(libraries, len(libraries)):
                        mode = spec["variants"]["library"][library].get("workload", {}).get("program", {}).get("prefetch", {}).get("mode")
                        prefix = [plumb, "prefetch", "run", "--quiet", "--mode", mode, "--"] if mode else []
                        cold([place])
                        for pages in ["cold"] if arguments.cold_only else ["cold", "warm"]:
                            if arguments.prepare_each:
                                shell(program.get("prepare", ""))
                                if pages == "cold":
                                    cold([place])
                            begun = time.monotonic()
                            output = shell(program["measure"], prefix)
                            times.setdefault((pages, library), []).append(time.monotonic() - begun)
                            found = contents(spec, output)
                            if seen not in (None, found):
                                sys.exit(f"{name}, {variables}, {library}: {found} instead of {seen}")
                            seen = found
                for pages in ["cold", "warm"]:
                    for library in libraries:
                        took = times.get((pages, library))
                        if not took:
                            continue
                        middle = statistics.median(took)
                        ratio = statistics.median(times[pages, libraries[0]]) / middle
                        words = " ".join(f"{key}={value}" for key, value in variables.items())
                        print(f"| {name} | {words} | {pages} | {library} | {middle:.4f} ({min(took):.4f} to {max(took):.4f}) | {ratio:.2f}x |", flush=True)


main()
