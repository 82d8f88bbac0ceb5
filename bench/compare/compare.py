"""The same all-reduce loop over Anello and its peers, interleaved in one go. Run it as bench/compare/compare --help."""

import argparse
import datetime
import hashlib
import json
import os
import platform
import random
import shlex
import subprocess
import sys
import time

import job
import libraries
import table

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SIZES = "8,4KiB,256KiB,16MiB,256MiB"


def byte_count(text):
    for suffix, unit in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("G", 1 << 30), ("M", 1 << 20),
                         ("K", 1 << 10), ("B", 1)):
        if text.endswith(suffix):
            return int(text[: -len(suffix)]) * unit
    return int(text)


def parse():
    parser = argparse.ArgumentParser(prog="bench/compare/compare", description=__doc__, epilog="""
        untouched: the calls of a batch follow each other on the buffer as it is; dirty: every rank rewrites its
        buffer before each call (that time is subtracted). Medians over rounds of each library's best setting. ~: other
        processes disturbed all rows of some library; the figures are then the fastest batches. ?: the same, and the
        processors lay differently, so that ratios mean little. Every result is verified.""")
    parser.add_argument("--quick", action="store_true", help="3 rounds, short windows, only the usually best settings")
    parser.add_argument("--ranks", default="2", help="list, default 2")
    parser.add_argument("--sizes", default=SIZES, help=f"list in bytes, KiB or MiB, default {SIZES}")
    parser.add_argument("--transports", default="shm,tcp", help="default shm,tcp")
    parser.add_argument("--libraries", default=",".join(libraries.PROGRAMS), help="default all")
    parser.add_argument("--rounds", type=int, help="default 5, with --quick 3")
    parser.add_argument("--seed", type=int, default=1, help="of the order within a round")
    parser.add_argument("--repeats", type=int, help="of a disturbed sample, at most; default 2, with --quick 1")
    parser.add_argument("--minutes", type=float,
                        help="once the first round is complete, stop when this is over; with --quick 2.7")
    parser.add_argument("--out", help="JSON file of all rows; rows already there are not measured again")
    parser.add_argument("--markdown", help="file for the tables with command, machine, date and versions")
    parser.add_argument("--targets", action="store_true", help="exit with 1 where a stated target is missed")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="build directory, default build")
    parser.add_argument("--no-build", action="store_true", help="do not bring the build up to date first")
    parser.add_argument("--install", action="store_true", help="install the Debian packages of missing peers")
    options = parser.parse_args()
    options.ranks = [int(item) for item in options.ranks.split(",")]
    options.sizes = sorted({byte_count(item) for item in options.sizes.split(",")})
    options.transports = options.transports.split(",")
    options.libraries = options.libraries.split(",")
    options.rounds = options.rounds or (3 if options.quick else 5)
    options.repeats = options.repeats if options.repeats is not None else (1 if options.quick else 2)
    options.minutes = options.minutes or (2.7 if options.quick else None)
    unknown = [item for item in options.libraries if item not in libraries.PROGRAMS]
    if unknown or min(options.ranks) < 2 or max(options.ranks) > 64 or set(options.transports) - {"shm", "tcp"}:
        parser.error("libraries are " + ", ".join(libraries.PROGRAMS) + "; ranks 2 to 64; transports shm and tcp")
    if any(size % 4 or not 4 <= size < 1 << 33 for size in options.sizes):
        parser.error("sizes are multiples of 4 below 8 GiB")
    return options


def install(options):
    packages = [word for library in options.libraries if libraries.missing(library, options.build)
                for word in libraries.PROGRAMS[library][2].split()]
    if not packages:
        return
    sudo = [] if os.geteuid() == 0 else ["sudo"]
    subprocess.run([*sudo, "apt-get", "install", "-y", "--no-install-recommends", *packages], check=True)
    if os.path.isdir(options.build):
        # What an earlier configuration did not find is remembered otherwise.
        subprocess.run(["meson", "configure", options.build, "--clearcache"], check=True)
        subprocess.run(["meson", "setup", "--reconfigure", options.build], check=True, stdout=subprocess.DEVNULL)


def build(options):
    if not os.path.isfile(os.path.join(options.build, "build.ninja")):
        subprocess.run(["meson", "setup", options.build, ROOT], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "-C", options.build, "--quiet"], check=True)


def available_memory():
    with open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 1 << 40


def digest(setting, build_directory):
    """Rows of another build of a loop, or of Anello, are not taken over from an earlier run."""
    total = hashlib.sha256(repr(setting).encode())
    paths = [libraries.loop_program(setting.library, build_directory)]
    if setting.library == "Anello":
        paths += [os.path.join(folder, name) for folder, _, names in os.walk(os.path.join(build_directory, "lib"))
                  for name in sorted(names) if name.startswith("libanello.so.")]
    for path in paths:
        with open(path, "rb") as file:
            total.update(file.read())
    return total.hexdigest()[:12]


def others_now():
    """Processors that are in use while this process only looks."""
    def used():
        with open("/proc/stat", encoding="ascii") as file:
            fields = [int(word) for word in file.readline().split()[1:9]]
        return fields[0] + fields[1] + fields[2] + fields[7]
    before, begin = used(), time.monotonic()
    time.sleep(0.2)
    return (used() - before) / os.sysconf("SC_CLK_TCK") / (time.monotonic() - begin)


class Run:
    """Measures the plan, cell by cell: a cell is a setting with a number of ranks in a round, all sizes."""

    def __init__(self, options):
        self.options = options
        self.window = 0.08 if options.quick else 0.3
        self.stored = {"rows": {}, "failures": {}}  # rows: by cell
        self.failed = {}  # (setting key, ranks): why; not tried again in this run
        self.usual = None  # see table.usual_line
        self.seen = []
        self.begin = time.monotonic()
        self.cut = ""
        if options.out and os.path.exists(options.out):
            with open(options.out, encoding="utf-8") as file:
                self.stored = json.load(file)

    def plan(self, settings):
        cells = []
        for number in range(self.options.rounds):
            of_round = []
            for setting in settings:
                for ranks in self.options.ranks:
                    sizes = [size for size in self.options.sizes if setting.takes(size, ranks)]
                    if sizes:
                        of_round.append((number, setting, ranks, sizes))
            random.Random(self.options.seed * 1000 + number).shuffle(of_round)
            cells += of_round
        return cells

    def key(self, cell):
        number, setting, ranks, sizes = cell
        return "|".join([str(number), setting.key, str(ranks), ",".join(map(str, sizes)), str(self.window),
                         digest(setting, self.options.build)])

    def save(self):
        if not self.options.out:
            return
        with open(self.options.out + ".new", "w", encoding="utf-8") as file:
            json.dump(self.stored, file)
        os.replace(self.options.out + ".new", self.options.out)

    def behind(self, share):
        """Whether the time that --minutes allows for this share of the cells is over."""
        return self.options.minutes is not None and time.monotonic() - self.begin > 60 * self.options.minutes * share

    def settle(self):
        """Waits, within reason, until other processes leave the processors alone."""
        patience = time.monotonic() + (1 if self.options.quick else 10)
        while others_now() > table.QUIET and time.monotonic() < patience:
            pass

    def measure(self, cell, share):
        _, setting, ranks, sizes = cell
        best = {}
        for _ in range(1 + self.options.repeats):
            arguments = ["--window", str(self.window)]
            if self.usual:
                arguments += ["--line", f"{self.usual:.1f}"]
            self.settle()
            limit = int(20 + 60 * ranks * sum(sizes) / (1 << 30))
            try:
                rows = job.run(setting, ranks, sizes, self.options.build, limit, arguments)
            except job.JobFailed as failure:
                rows = failure.rows
                self.failed[(setting.key, ranks)] = str(failure)
            for row in rows:
                row.update(library=setting.library, setting=setting.name, transport=setting.transport)
            self.seen += rows
            self.usual = table.usual_line(self.seen)
            for row in rows:
                case = (row["bytes"], row["dirty"])
                if case not in best or table.loudness(row, self.usual) < table.loudness(best[case], self.usual):
                    best[case] = row
            sizes = sorted({case[0] for case, row in best.items() if table.loudness(row, self.usual) > 0})
            if not sizes or (setting.key, ranks) in self.failed or self.behind(share):
                break
        return list(best.values())

    def all(self, settings):
        cells = self.plan(settings)
        rows = []
        for index, cell in enumerate(cells):
            number, setting, ranks, _ = cell
            if number > 0 and self.behind(1):
                self.cut = f"the time was over in round {number + 1} of {self.options.rounds}"
                break
            key = self.key(cell)
            if key not in self.stored["rows"] and (setting.key, ranks) not in self.failed:
                progress(f"[{index + 1}/{len(cells)}] round {number + 1}: {setting.key}, {ranks} ranks"
                         f" ({time.monotonic() - self.begin:.0f} s)")
                measured = self.measure(cell, (index + 1) / len(cells))
                if (setting.key, ranks) not in self.failed:
                    self.stored["rows"][key] = measured
                    self.save()
                else:
                    rows += measured
            rows += self.stored["rows"].get(key, [])
        progress("")
        return rows


def progress(text):
    if sys.stderr.isatty():
        print(f"\r{text:<100}", end="" if text else "\r", file=sys.stderr, flush=True)
    elif text:
        print(text, file=sys.stderr, flush=True)


def machine():
    model = "unknown processor"
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    congestion = "/proc/sys/net/ipv4/tcp_congestion_control"
    control = open(congestion, encoding="ascii").read().strip() if os.path.exists(congestion) else "unknown"
    return (f"{model}, {len(os.sched_getaffinity(0))} processors, Linux {platform.release()}, "
            f"TCP congestion control {control}")


def main():
    options = parse()
    if options.install:
        install(options)
    if not options.no_build:
        build(options)
    left_out = {library: libraries.missing(library, options.build) for library in options.libraries}
    settings = [setting for setting in libraries.SETTINGS
                if setting.library in options.libraries and not left_out[setting.library]
                and setting.transport in options.transports and (setting.quick or not options.quick)]
    memory = available_memory()
    # A buffer, and up to as much scratch within the library, with a quarter left for everybody else.
    too_large = [size for size in options.sizes if 2 * size * max(options.ranks) > 0.75 * memory]
    options.sizes = [size for size in options.sizes if size not in too_large]

    begin = time.monotonic()
    run = Run(options)
    rows = run.all(settings)
    processors = len(os.sched_getaffinity(0))
    made = table.tables(table.figures(rows), processors)
    notes = [f"Left out: {library}: {why}" for library, why in left_out.items() if why]
    notes += [f"Left out: {table.size_text(size)}: needs more memory than is free" for size in too_large]
    notes += [f"Cut short: {run.cut}"] if run.cut else []
    notes += [f"Failed: {key}, {ranks} ranks: {why}" for (key, ranks), why in run.failed.items()]
    versions = sorted({row["version"] for row in rows})
    usual = table.usual_line(rows)
    loud = sum(table.loudness(row, usual) > 0 for row in rows)
    facts = [f"Command: bench/compare/compare {shlex.join(sys.argv[1:])}", f"Machine: {machine()}",
             f"Date: {datetime.datetime.now().astimezone().isoformat(timespec='minutes')}, "
             f"{time.monotonic() - begin:.0f} s", "Versions: " + "; ".join(versions),
             f"{len(rows)} rows, all results verified; {loud} disturbed"
             + (f"; a cache line between the processors: {usual:.0f} ns" if usual else "")]
    for title, header, lines, _ in made:
        print(table.as_text(title, header, lines), end="\n\n")
    print("\n".join(facts + notes))
    missed = [text for *_, misses in made for text in misses]
    if options.targets:
        print("\n".join(f"Target missed: {text}" for text in missed) or "All targets met.")
    if options.markdown:
        with open(options.markdown, "w", encoding="utf-8") as file:
            file.write("\n\n".join(table.as_markdown(title, header, lines) for title, header, lines, _ in made))
            file.write("\n\n" + "\n".join(f"- {text}" for text in facts + notes) + "\n")
    anello_failed = any(key.startswith("Anello/") for key, _ in run.failed)
    return 1 if anello_failed or not rows or (options.targets and missed) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:
        sys.exit(f"compare: {shlex.join(error.cmd)} failed with {error.returncode}")
    except KeyboardInterrupt:
        sys.exit(130)
