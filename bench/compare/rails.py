"""All-reduce between two hosts over one link and over several at once (ANELLO_INTERFACES). The hosts are network
namespaces of this machine, which needs root; they are removed at the end. Run it as bench/compare/compare rails."""

import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import machine
import table

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test/failures"))
import networks  # noqa: E402

KIB, MIB = 1 << 10, 1 << 20
SIZES = (64 * KIB, 256 * KIB, MIB, 16 * MIB)
DEADLINE = 300


def micros(cables, options, secret, port, interfaces):
    """The time of a call by its size."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for size in options.sizes:
            report = os.path.join(folder, f"{size}.json")
            program = [options.perf, "-b", str(size), "-n", "5", "--no-ceilings", "-J", report]
            ranks = cables.start(program, port, secret, (0, 1), (interfaces,) * 2)
            try:
                said = [rank.communicate(timeout=DEADLINE) for rank in ranks]
            finally:
                for rank in ranks:
                    rank.kill()
                    rank.communicate()
            if any(rank.returncode != 0 for rank in ranks):
                raise RuntimeError("".join(words[1] for words in said).strip())
            with open(report, encoding="utf-8") as file:
                found[size] = json.load(file)["results"][0]["in_place"]["time"]
            port += 2
    return found


def measure(rates, options, secret):
    """Lines of the table."""
    cables = networks.Cables(rates)
    one, all_rails = {}, {}
    try:
        for number in range(options.rounds):
            print(f"{' and '.join(rates)}, round {number + 1}", file=sys.stderr, flush=True)
            for times, interfaces in ((one, "=rail0"), (all_rails, "rail")):
                for size, time in micros(cables, options, secret, 29500, interfaces).items():
                    times.setdefault(size, []).append(time)
    finally:
        cables.close()
    lines = []
    for size in options.sizes:
        alone, together = statistics.median(one[size]), statistics.median(all_rails[size])
        lines.append([" + ".join(rates), table.size_text(size), f"{alone / 1e3:.2f} ms", f"{together / 1e3:.2f} ms",
                      f"{alone / together:.2f}"])
    return lines


def main():
    parser = argparse.ArgumentParser(prog="bench/compare/compare rails", description=__doc__)
    parser.add_argument("--links", default="200mbit,200mbit 200mbit,100mbit 200mbit,50mbit 10gbit,10gbit",
                        help="rates of the links as tc writes them, the first of which is also measured alone; sets are "
                             "separated by spaces")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="list in bytes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--perf", default=str(ROOT / "build/bench/anello-perf"), help="path of anello-perf")
    options = parser.parse_args()
    options.sizes = [int(size) for size in options.sizes.split(",")]
    if os.geteuid() != 0:
        sys.exit("compare rails: needs root, to make network namespaces and to shape their links; run it with sudo")
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        secret = os.path.join(folder, "secret")
        with open(os.open(secret, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
            file.write(os.urandom(16).hex())
        for rates in options.links.split():
            lines += measure(rates.split(","), options, secret)
    print(table.as_text("all-reduce in place, float32 sum, 2 hosts", ["links", "size", "first link", "all links", "speed-up"], lines))
    print(f"\nMachine: {machine.text()}\nDate: {datetime.datetime.now().astimezone().isoformat(timespec='minutes')}; medians of "
          f"{options.rounds} rounds")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        sys.exit(f"compare rails: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
