"""draw_growth.py FILE.svg: draws what growth.py writes to standard input."""

import json
import sys
import textwrap

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.ticker import FixedLocator, NullLocator

COLOURS = {"ring": "#c0392b", "sync": "#1f77b4", "async": "#2ca02c"}
MARKERS = {"ring": "o", "sync": "s", "async": "D"}


def main():
    matplotlib.rcParams["svg.fonttype"] = "none"  # text that can be searched, not outlines
    matplotlib.rcParams["svg.hashsalt"] = "anello"  # for the names inside, which are random otherwise
    matplotlib.rcParams["font.family"] = "sans-serif"
    given = json.load(sys.stdin)
    figure, axes = pyplot.subplots(figsize=(7.6, 4.4), layout="constrained")
    hosts = [row["hosts"] for row in given["rows"]]
    for way, name in given["names"].items():
        axes.plot(hosts, [row["measured"][way] for row in given["rows"]], color=COLOURS[way], linewidth=2.2 if way == "ring" else 1.4,
                  marker=MARKERS[way], markersize=4, label=name, zorder=3)
        axes.plot(hosts, [row["predicted"][way] for row in given["rows"]], color=COLOURS[way], linewidth=1, linestyle="--",
                  label=f"{name}, predicted", zorder=1)
    axes.set_xlabel("hosts", fontsize=9)
    axes.set_ylabel("milliseconds a round", fontsize=9)
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(FixedLocator(hosts))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.tick_params(labelsize=8)
    axes.grid(True, color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, frameon=False, loc="upper left")
    axes.set_title(given["title"], fontsize=11)
    figure.supxlabel(textwrap.fill(given["facts"], 130), fontsize=5.5, color="#666666")
    # Equal rows give equal files, byte by byte, so that a file in a repository changes only with its figures.
    figure.savefig(sys.argv[1], metadata={"Date": None})


if __name__ == "__main__":
    main()
