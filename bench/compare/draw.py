"""draw.py FOLDER [svg|png]: draws what plots.py writes to standard input."""

import json
import os
import sys

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

OWN_COLOURS = {"Anello": "#c0392b", "Anello mapped": "#e67e22"}
PEER_COLOURS = ["#1f77b4", "#2ca02c", "#9467bd", "#17becf", "#8c564b", "#e377c2", "#bcbd22", "#525252"]
MARKERS = "osD^vPX*"
CEILING_STYLES = ["--", ":", "-.", (0, (6, 1, 1, 1, 1, 1))]
ROWS = (("time", "microseconds a call"), ("peer", "time over the best peer's"), ("ceiling", "time over the ceiling"))


def size_text(size, _=None):
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:g} {name}"
    return f"{size:g} B"


def plain(value, _=None):
    return f"{value:g}"


def draw_times(axes, panel, given, colours):
    order = [*given["own"], *sorted(colours), *given["ceilings"]]
    for name, points in sorted(panel["time"].items(), key=lambda item: order.index(item[0])):
        sizes, times = zip(*sorted(points))
        if name in given["own"]:
            axes.plot(sizes, times, color=OWN_COLOURS[name], linewidth=2.4, marker="o", markersize=4, label=name, zorder=5)
        elif name in given["ceilings"]:
            style = CEILING_STYLES[given["ceilings"].index(name) % len(CEILING_STYLES)]
            axes.plot(sizes, times, color="#777777", linewidth=1.1, linestyle=style, marker="x" if len(sizes) == 1 else "",
                      label=f"ceiling: {name}", zorder=1)
        else:
            colour, marker = colours[name]
            axes.plot(sizes, times, color=colour, linewidth=1, marker=marker, markersize=3.5, label=name, zorder=3)
    axes.set_yscale("log")


def draw_ratios(axes, panel, what):
    axes.axhline(1, color="#555555", linewidth=0.8)
    for own, points in panel[what].items():
        sizes, ratios = zip(*sorted(points))
        axes.plot(sizes, ratios, color=OWN_COLOURS[own], linewidth=2, marker="o", markersize=4, label=own)
        goals = sorted(panel["goals"].get(f"{what} {own}", []))
        if goals:
            axes.plot(*zip(*goals), color=OWN_COLOURS[own], linewidth=0, marker="_", markersize=11, markeredgewidth=1.8,
                      alpha=0.6, label=f"target, {own}")
    axes.set_yscale("log", base=2)
    axes.yaxis.set_major_formatter(FuncFormatter(plain))


def draw(page, given, folder, kind):
    rows = [row for row in ROWS if any(panel[row[0]] for panel in page["panels"])]
    heights = [1.7 if row[0] == "time" else 1 for row in rows]
    figure, grid = pyplot.subplots(len(rows), len(page["panels"]), squeeze=False, sharex=True, sharey="row",
                                   figsize=(5.4 * len(page["panels"]) + 2.2, 2.6 * sum(heights) + 0.6),
                                   gridspec_kw={"height_ratios": heights}, layout="constrained")
    peers = sorted({name for panel in page["panels"] for name in panel["time"]} - set(given["own"]) - set(given["ceilings"]))
    colours = {name: (PEER_COLOURS[i % len(PEER_COLOURS)], MARKERS[i % len(MARKERS)]) for i, name in enumerate(peers)}
    for column, panel in enumerate(page["panels"]):
        for row, (what, label) in enumerate(rows):
            axes = grid[row][column]
            if what == "time":
                draw_times(axes, panel, given, colours)
                axes.set_title(panel["name"], fontsize=10)
            else:
                draw_ratios(axes, panel, what)
            axes.set_xscale("log", base=2)
            sizes = sorted({size for points in panel["time"].values() for size, _ in points})
            shown = sizes[:: max(1, (len(sizes) + 6) // 7)]
            axes.xaxis.set_major_locator(FixedLocator(shown))
            axes.xaxis.set_minor_locator(NullLocator())
            axes.xaxis.set_major_formatter(FuncFormatter(size_text))
            axes.tick_params(labelsize=8)
            axes.grid(True, which="major", color="#dddddd", linewidth=0.6)
            axes.spines[["top", "right"]].set_visible(False)
            if column == 0:
                axes.set_ylabel(label, fontsize=9)
            if column == len(page["panels"]) - 1:
                axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.01, 1))
    for row, (what, _) in enumerate(rows):
        if what != "time":  # all columns share it
            ratios = [ratio for panel in page["panels"] for points in panel[what].values() for _, ratio in points]
            grid[row][0].set_ylim(min(0.5, min(ratios) / 1.15), max(2, max(ratios) * 1.15))
    figure.suptitle(page["title"], fontsize=12)
    figure.supxlabel(given["facts"], fontsize=7, color="#666666")
    # Equal rows give equal files, byte by byte, so that a file in a repository changes only with its figures.
    figure.savefig(os.path.join(folder, f"{page['name']}.{kind}"), dpi=110, metadata={"Date": None} if kind == "svg" else None)
    pyplot.close(figure)


def main():
    matplotlib.rcParams["svg.fonttype"] = "none"  # text that can be searched, not outlines
    matplotlib.rcParams["svg.hashsalt"] = "anello"  # for the names inside, which are random otherwise
    matplotlib.rcParams["font.family"] = "sans-serif"
    given = json.load(sys.stdin)
    for page in given["pages"]:
        draw(page, given, sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "svg")


if __name__ == "__main__":
    main()
