"""Measures a plan, cell by cell, in interleaved rounds. It repeats disturbed samples and skips stored rows of an
earlier run."""

import hashlib
import json
import os
import sys
import time

import job
import libraries
import machine
import table


def digest(setting, build_directory):
    """Rows of another build of a loop, or of Anello, are not reused from an earlier run."""
    total = hashlib.sha256(repr(setting).encode())
    paths = [libraries.loop_program(setting.library, build_directory)]
    if setting.library in libraries.OWN:  # their loops find it when they start
        paths += [os.path.join(folder, name) for folder, _, names in os.walk(os.path.join(build_directory, "lib"))
                  for name in sorted(names) if name.startswith("libanello.so.")]
    for path in paths:
        with open(path, "rb") as file:
            total.update(file.read())
    return total.hexdigest()[:12]


class Run:
    """Measures the plan, cell by cell: a cell is a setting with a number of ranks in a round, all sizes."""

    def __init__(self, options):
        self.options = options
        self.window = 0.06 if options.quick else 0.3
        self.stored = {"rows": {}, "failures": {}}  # rows: by cell
        self.failed = {}  # (setting and operation, ranks): reason; not tried again in this run
        self.usual = None  # see table.usual_line
        self.seen = []
        self.begin = time.monotonic()
        self.cut = ""
        if options.out and os.path.exists(options.out):
            with open(options.out, encoding="utf-8") as file:
                self.stored = json.load(file)

    def key(self, cell):
        return "|".join([str(cell.round), cell.setting.key, str(cell.ranks), cell.operation,
                         ",".join(map(str, cell.sizes)), str(self.window), digest(cell.setting, self.options.build)])

    def failing(self, cell):
        return f"{cell.setting.key}, {cell.operation}", cell.ranks

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
        """Waits for a limited time until other processes leave the processors idle."""
        patience = time.monotonic() + (1 if self.options.quick else 10)
        while machine.others_now() > table.QUIET and time.monotonic() < patience:
            pass

    def measure(self, cell, share):
        setting, ranks, sizes = cell.setting, cell.ranks, list(cell.sizes)
        failing = self.failing(cell)
        best = {}
        for _ in range(1 + self.options.repeats):
            arguments = ["--window", str(self.window), "--operation", cell.operation, *cell.arguments]
            if self.usual:
                arguments += ["--line", f"{self.usual:.1f}"]
            self.settle()
            limit = int(20 + 60 * ranks * sum(sizes) / (1 << 30))
            try:
                rows = job.run(setting, ranks, sizes, self.options.build, limit, arguments)
            except job.JobFailed as failure:
                rows = failure.rows
                self.failed[failing] = str(failure)
            for row in rows:
                row.update(library=setting.library, setting=setting.name, transport=setting.transport,
                           round=cell.round)
            self.seen += rows
            self.usual = table.usual_line(self.seen)
            for row in rows:
                case = (row["bytes"], row["dirty"])
                if case not in best or table.loudness(row, self.usual) < table.loudness(best[case], self.usual):
                    best[case] = row
            sizes = sorted({case[0] for case, row in best.items() if table.loudness(row, self.usual) > 0})
            if not sizes or failing in self.failed or self.behind(share):
                break
        return list(best.values())

    def stored_rows(self):
        return [row for rows in self.stored["rows"].values() for row in rows]

    def all(self, cells):
        rows = []
        for index, cell in enumerate(cells):
            if cell.round > 0 and self.behind(1):
                self.cut = f"the time was over in round {cell.round + 1} of {self.options.rounds}"
                break
            key, failing = self.key(cell), self.failing(cell)
            if key not in self.stored["rows"] and failing not in self.failed:
                progress(f"[{index + 1}/{len(cells)}] round {cell.round + 1}: {cell.setting.key}, {cell.operation}, "
                         f"{cell.ranks} ranks ({time.monotonic() - self.begin:.0f} s)")
                measured = self.measure(cell, (index + 1) / len(cells))
                if failing not in self.failed:
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
