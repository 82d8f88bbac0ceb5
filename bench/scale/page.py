#!/usr/bin/env python3
"""The table and the plot of docs/scale.md: an all-reduce over more and more hosts, as anello-plan scale predicts it.

    python3 bench/scale/page.py                            prints the table
    python3 bench/scale/page.py --check docs/scale.md      fails unless the page has this table
    python3 bench/scale/page.py --write docs/scale.md      puts it into the page
    python3 bench/scale/page.py --plot docs/plots/scale.svg      needs matplotlib"""

import argparse
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PER_HOST, COUNT = 8, 16 << 20  # float32: 64 MiB
GBIT, LATENCY_US = 25, 12
RANKS = (64, 1024, 65536)
PLOTTED = (16, 64, 256, 1024, 65536)
WAYS = ("ring", "hierarchical", "halving", "doubling")
CENTRAL = "central reducer"
PLACE = re.compile(r"(<!-- table of bench/scale/page.py -->\n).*?(<!-- end of table -->)", re.DOTALL)


def asked(build, collective, algorithm, ranks):
    words = ["scale", collective, "-a", algorithm, "--per-host", f"{PER_HOST}x{ranks // PER_HOST}", "-c", COUNT, "--rate",
             GBIT, "--latency", LATENCY_US, "--json"]
    said = subprocess.run([build / "tools/anello-plan", *map(str, words)], check=True, capture_output=True, text=True,
                          timeout=300).stdout
    return json.loads(said)["algorithms"][0]


def central(build, ranks):
    """Seconds, by what its host's link must carry: a vector from each rank of other hosts, and the sum to each."""
    through = asked(build, "gather", "direct", ranks)["received_bytes"] * (ranks - PER_HOST) // (ranks - 1)
    return 2 * through * 8 / (GBIT * 1e9), ranks - 1


def found(build, ranks):
    """{way: (seconds, connections)}"""
    rows = {way: asked(build, "allreduce", way, ranks) for way in WAYS}
    return {**{way: (row["seconds"], row["connections"]) for way, row in rows.items()}, CENTRAL: central(build, ranks)}


def duration(seconds):
    if seconds >= 120:
        return f"{seconds / 60:.0f} min"
    if seconds >= 10:
        return f"{seconds:.0f} s"
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1e3 * seconds:.1f} ms"


def table(build):
    yield f"| ranks | {' | '.join(WAYS)} | {CENTRAL} | connections of the busiest rank |\n"
    yield f"| ----: |{' ----: |' * len(WAYS)} ----: | --- |\n"
    for ranks in RANKS:
        ways = found(build, ranks)
        times = " | ".join(duration(seconds) for seconds, _ in ways.values())
        connections = " / ".join(f"{count:,}" for _, count in ways.values())
        yield f"| {ranks:,} | {times} | {connections} |\n"


def draw(build, path):
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot

    matplotlib.rcParams["svg.fonttype"] = "none"  # text that can be searched, not outlines
    matplotlib.rcParams["svg.hashsalt"] = "anello"  # for the names inside, which are random otherwise
    by_ranks = {ranks: found(build, ranks) for ranks in PLOTTED}
    figure, axes = pyplot.subplots(figsize=(7.6, 4.4), layout="constrained")
    for way, marker in zip((*WAYS, CENTRAL), "osD^x"):
        axes.plot(PLOTTED, [by_ranks[ranks][way][0] for ranks in PLOTTED], marker=marker, markersize=4, label=way)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel(f"ranks, {PER_HOST} a host", fontsize=9)
    axes.set_ylabel("seconds", fontsize=9)
    axes.grid(True, color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, frameon=False, loc="upper left")
    axes.set_title(f"All-reduce of 64 MiB over links of {GBIT} Gbit/s, predicted", fontsize=11)
    figure.savefig(path, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build", type=lambda words: pathlib.Path(words).resolve())
    parser.add_argument("--check", type=pathlib.Path)
    parser.add_argument("--write", type=pathlib.Path)
    parser.add_argument("--plot", type=pathlib.Path)
    options = parser.parse_args()
    if options.plot:
        draw(options.build, options.plot)
        return
    lines = "".join(table(options.build))
    print(lines, end="")
    page = options.check or options.write
    if not page:
        return
    text = page.read_text(encoding="utf-8")
    if not PLACE.search(text):
        sys.exit(f"page.py: {page} has no place for the table")
    fresh = PLACE.sub(lambda match: match[1] + lines + match[2], text)
    if options.write:
        page.write_text(fresh, encoding="utf-8")
    elif fresh != text:
        sys.exit(f"page.py: {page} has another table; python3 bench/scale/page.py --write {page} renews it")


if __name__ == "__main__":
    main()
