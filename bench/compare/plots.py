"""Plots of a run as SVG: time, ratio to the best peer and ratio to the ceiling over size. compare.py passes `curves` to
draw.py, which runs with the matplotlib that --install put below the build folder, or with the system's."""

import importlib.util
import json
import os
import subprocess
import sys

import libraries
import table
import wheels

DRAW = os.path.join(os.path.dirname(os.path.abspath(__file__)), "draw.py")


def curves(results, verdicts):
    """One dictionary for each (operation, ranks, transport), as draw.py reads it."""
    made = []
    for group in sorted({case[:3] for case in results}):
        title = table.title(*group).removesuffix(", microseconds a call")
        page = {"name": "-".join(map(str, group)), "title": title, "panels": []}
        for dirty in sorted({case[4] for case in results if case[:3] == group}):
            cases = [case for case in sorted(results) if case[:3] == group and case[4] == dirty]
            panel = {"name": table.buffer_text(dirty), "time": {}, "peer": {}, "ceiling": {}, "goals": {}}
            for case in cases:
                for name, figure in results[case].items():
                    panel["time"].setdefault(name, []).append((case[3], figure.micros))
            for verdict in (item for item in verdicts if item.case in cases):
                size = verdict.case[3]
                for what, ratio, goal in (("peer", verdict.peer_ratio, verdict.goal.peer),
                                          ("ceiling", verdict.ceiling_ratio, verdict.goal.ceiling)):
                    if ratio:
                        panel[what].setdefault(verdict.own, []).append((size, ratio[0]))
                    if ratio and goal:
                        panel["goals"].setdefault(f"{what} {verdict.own}", []).append((size, goal))
            page["panels"].append(panel)
        made.append(page)
    return made


def write(results, verdicts, folder, facts, build):
    """Returns "" or why there are no plots."""
    python = wheels.python(wheels.PLOTTING, build) or (sys.executable if importlib.util.find_spec("matplotlib") else None)
    if not python:
        return "no plots: matplotlib is not there: --install puts it below the build folder"
    os.makedirs(folder, exist_ok=True)
    given = {"own": libraries.OWN, "ceilings": libraries.CEILINGS, "facts": facts, "pages": curves(results, verdicts)}
    done = subprocess.run([python, DRAW, folder], input=json.dumps(given), text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return "" if done.returncode == 0 else f"no plots: {done.stdout.strip()[-300:]}"
