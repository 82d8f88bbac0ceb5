"""The same all-reduce loop over Anello and its peers, interleaved in one go. Run it as bench/compare/compare --help."""

import argparse
import datetime
import json
import os
import shlex
import subprocess
import sys
import time

import job
import libraries
import machine
import measure
import plan
import plots
import settings
import table
import wheels

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def byte_count(text):
    for suffix, unit in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("G", 1 << 30), ("M", 1 << 20),
                         ("K", 1 << 10), ("B", 1)):
        if text.endswith(suffix):
            return int(text[: -len(suffix)]) * unit
    return int(text)


def parse():
    parser = argparse.ArgumentParser(prog="bench/compare/compare", description=__doc__, epilog="""
        The first table sums the run up; those below it have each case with its times, its targets and every library.
        Figures are medians over rounds of each library's best setting, and ratios are medians of those within a round.
        Every result is verified. Notes below the tables explain their words.""")
    parser.add_argument("--quick", action="store_true",
                        help="3 rounds, short windows, few sizes, without some settings (README.md lists them): under 10 minutes")
    parser.add_argument("--ranks", help="list, default 2,4,8; with --collectives 2,4")
    parser.add_argument("--sizes", help="list in bytes, KiB or MiB; default 4 B to 1 GiB at 2 ranks, fewer at more")
    parser.add_argument("--operations", help="list, default allreduce: " + ", ".join(plan.COLLECTIVES))
    parser.add_argument("--collectives", action="store_true", help="all but allreduce, compared with the MPI peers; 2 and 4 ranks")
    parser.add_argument("--transports", default="shm,tcp", help="default shm,tcp")
    parser.add_argument("--libraries", default=",".join(libraries.LIBRARIES),
                        help="default all; \"ceilings\" selects all ceilings")
    parser.add_argument("--rounds", type=int, help="default 5, with --quick 3")
    parser.add_argument("--seed", type=int, default=1, help="seed for the order within a round")
    parser.add_argument("--repeats", type=int, help="most repetitions of a disturbed sample; default 2, with --quick 1")
    parser.add_argument("--minutes", type=float,
                        help="time limit, once the first round is complete; with --quick 9")
    parser.add_argument("--out", help="JSON file of all rows; rows already there are not measured again")
    parser.add_argument("--report-only", action="store_true", help="measure nothing: report all rows of --out, from any build")
    parser.add_argument("--markdown", help="file for the tables with command, machine, date and versions")
    parser.add_argument("--targets", action="store_true", help="exit with 1 if a target is missed")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), type=os.path.abspath,
                        help="build directory, default build")
    parser.add_argument("--no-build", action="store_true", help="do not rebuild first")
    parser.add_argument("--install", action="store_true",
                        help="install missing peers: Debian packages, and wheels below the build folder")
    parser.add_argument("--plots", help="folder for plots of time and ratios as SVG")
    options = parser.parse_args()
    options.ranks = [int(item) for item in (options.ranks or ("2,4" if options.collectives else "2,4,8")).split(",")]
    options.operations = list(plan.COLLECTIVES) if options.collectives else (options.operations or "allreduce").split(",")
    if set(options.operations) - {"allreduce", *plan.COLLECTIVES}:
        parser.error("operations are allreduce, " + ", ".join(plan.COLLECTIVES))
    options.sizes = sorted({byte_count(item) for item in options.sizes.split(",")}) if options.sizes else []
    options.transports = options.transports.split(",")
    options.libraries = [name for item in options.libraries.split(",")
                         for name in (libraries.CEILINGS if item == "ceilings" else (item,))]
    options.rounds = options.rounds or (3 if options.quick else 5)
    options.repeats = options.repeats if options.repeats is not None else (1 if options.quick else 2)
    options.minutes = options.minutes or (9 if options.quick else None)
    unknown = [item for item in options.libraries if item not in libraries.LIBRARIES]
    if unknown or min(options.ranks) < 2 or max(options.ranks) > 64 or set(options.transports) - {"shm", "tcp"}:
        parser.error("libraries are " + ", ".join(libraries.LIBRARIES) + "; ranks 2 to 64; transports shm and tcp")
    if any(size % 4 or not 4 <= size < 1 << 33 for size in options.sizes):
        parser.error("sizes are multiples of 4 below 8 GiB")
    return options


def install(options):
    """{library: why it is not available from PyPI}"""
    refused = {}
    for name in options.libraries:
        wheel = libraries.LIBRARIES[name].wheel
        if wheel and (why := wheels.install(wheel, options.build)):
            refused[name] = f"is not available from PyPI: {why}"
    if options.plots and (why := wheels.install(wheels.PLOTTING, options.build)):
        print(f"compare: matplotlib is not available from PyPI, so there will be no plots: {why}", file=sys.stderr)
    packages = [word for name in options.libraries if libraries.missing(name, options.build)
                for word in libraries.LIBRARIES[name].packages.split()]
    if not packages:
        return refused
    sudo = [] if os.geteuid() == 0 else ["sudo"]
    subprocess.run([*sudo, "apt-get", "install", "-y", "--no-install-recommends", *packages], check=True)
    if os.path.isdir(options.build):
        # Otherwise Meson remembers packages that an earlier configuration did not find.
        subprocess.run(["meson", "configure", options.build, "--clearcache"], check=True)
        subprocess.run(["meson", "setup", "--reconfigure", options.build], check=True, stdout=subprocess.DEVNULL)
    return refused


def build(options):
    if not os.path.isfile(os.path.join(options.build, "build.ninja")):
        subprocess.run(["meson", "setup", options.build, ROOT], check=True, stdout=subprocess.DEVNULL)
    # Builds only the measured programs and their launcher.
    listed = subprocess.run(["meson", "introspect", options.build, "--targets"], stdout=subprocess.PIPE, check=True)
    wanted = [os.path.relpath(path, os.path.abspath(options.build)) for target in json.loads(listed.stdout)
              if target["name"] == "anellorun" or os.path.join("bench", "compare") in target["defined_in"]
              for path in target["filename"]]
    done = subprocess.run(["ninja", "-C", options.build, "--quiet", *wanted], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"compare: {options.build} does not build:\n{done.stdout}")


def report(options, made, seconds, rows, notes):
    """Writes the tables, and the facts that are needed to judge them, to standard output and as Markdown."""
    usual = table.usual_line(rows)
    loud = sum(table.loudness(row, usual) > 0 for row in rows)
    results = table.figures(rows)
    shown = table.summary_tables(made) + table.verdict_tables(results, made) + table.library_tables(results)
    facts = [f"Command: bench/compare/compare {shlex.join(sys.argv[1:])}", f"Machine: {machine.text()}",
             f"Date: {datetime.datetime.now().astimezone().isoformat(timespec='minutes')}, {seconds:.0f} s",
             "Versions: " + "; ".join(sorted({row["version"] for row in rows
                                        if row["library"] not in libraries.CEILINGS})),
             f"{len(rows)} rows, all results verified; {loud} disturbed"
             + (f"; a cache line between the processors: {usual:.0f} ns" if usual else "")]
    print("\n\n".join(table.as_text(*item) for item in shown), end="\n\n")
    facts = table.notes(results, made) + facts
    print("\n".join(facts + notes))
    if options.markdown:
        with open(options.markdown, "w", encoding="utf-8") as file:
            file.write("\n\n".join(table.as_markdown(*item) for item in shown))
            file.write("\n\n" + "\n".join(f"- {text}" for text in facts + notes) + "\n")


def main():
    options = parse()
    job.leave_on_terminate()
    refused = install(options) if options.install else {}
    if not options.no_build and not options.report_only:
        build(options)
    left_out = {library: refused.get(library) or libraries.missing(library, options.build) for library in options.libraries}
    chosen = [setting for setting in settings.SETTINGS
              if setting.library in options.libraries and not left_out[setting.library]
              and setting.transport in options.transports and (setting.quick or not options.quick)]
    cells, too_large = plan.cells(options, chosen, machine.available_memory())
    begin = time.monotonic()
    run = measure.Run(options)
    rows = run.stored_rows() if options.report_only else run.all(cells)
    if not rows:
        sys.exit("compare: nothing was measured: " + "; ".join([*run.failed.values(), *left_out.values()]))
    notes = [f"Left out: {library}: {why}" for library, why in left_out.items() if why]
    notes += [f"Left out: {table.size_text(size)}: needs more memory than is free" for size in too_large]
    notes += [f"Cut short: {run.cut}"] if run.cut else []
    notes += [f"Failed: {key}, {ranks} ranks: {why}" for (key, ranks), why in run.failed.items()]
    made = table.verdicts(table.figures(rows), machine.processors())
    report(options, made, time.monotonic() - begin, rows, notes)
    if options.plots:
        facts = f"{machine.text()}; {datetime.date.today().isoformat()}"
        print(plots.write(table.figures(rows), made, options.plots, facts, options.build) or f"Plots: {options.plots}")
    missed = table.missed(made)
    if options.targets:
        print("\n".join(f"Target missed: {text}" for text in missed) or "All targets met.")
    own_failed = any(key.split("/")[0] in libraries.OWN for key, _ in run.failed)
    return 1 if own_failed or (options.targets and missed) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:
        sys.exit(f"compare: {shlex.join(error.cmd)} failed with {error.returncode}")
    except KeyboardInterrupt:
        sys.exit(130)
