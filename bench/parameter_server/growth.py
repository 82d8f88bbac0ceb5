#!/usr/bin/env python3
"""How the cost of a parameter server grows with the number of hosts, beside the ring's: the time of a round, in which
every worker's gradient is applied once, of examples/parameter_server between hosts with slow links. The hosts are
network namespaces of this machine, which needs root; they are removed at the end.

    sudo python3 bench/parameter_server/growth.py --markdown table.md --plot docs/plots/parameter-server.svg

The prediction is the traffic that anello-plan counts for the busiest rank, divided by the rate of its link."""

import argparse
import datetime
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench/compare"))
import hosts as namespaces  # noqa: E402
import job  # noqa: E402
import machine  # noqa: E402
import table  # noqa: E402
import wheels  # noqa: E402

WAYS = {"ring": ("allreduce", "ring"), "sync": ("sync", "server, synchronous"), "async": ("async", "server, asynchronous")}
STARTUP = 60  # seconds for all ranks of a run to read the images and meet
TRAFFIC = re.compile(r"traffic of the busiest rank: (\d+) bytes out, (\d+) bytes in")


def busiest(build, hosts, weights, *words):
    """Bytes out and in of the rank that moves most in a collective between hosts."""
    said = subprocess.run([build / "tools/anello-plan", *words, "-r", str(hosts), "--network", "-c", str(weights), "--simulate"],
                          check=True, capture_output=True, text=True, timeout=60).stdout
    return [int(number) for number in TRAFFIC.search(said).groups()]


def predicted(build, hosts, weights, bytes_per_s):
    """Milliseconds of a round for each way."""
    ring = max(busiest(build, hosts, weights, "allreduce", "-a", "ring"))
    taken = busiest(build, hosts, weights, "gather", "-a", "direct")[1]    # a gradient from each worker
    given = busiest(build, hosts, weights, "scatter", "-a", "direct")[0]  # weights to each worker
    one = 4 * weights
    # One after the other, as a synchronous server does; else at once, but never faster than one worker's own two ways.
    moved = {"ring": ring, "sync": taken + given, "async": max(taken, given, 2 * one)}
    return {way: 1e3 * bytes / bytes_per_s for way, bytes in moved.items()}


def run(hosts, way, options, directory):
    """Milliseconds of a round, and the number of weights."""
    report, secret = directory / "report.json", directory / "secret"
    report.unlink(missing_ok=True)
    around = dict(os.environ, WORLD_SIZE=str(hosts.count), MASTER_ADDR=hosts.address(0), MASTER_PORT="29477",
                  ANELLO_SECRET_FILE=str(secret), ANELLO_TCP_CONGESTION=options.congestion)
    if way == "ring":
        around["ANELLO_ALGORITHM"] = "ring"
    program = [options.build / "examples/parameter_server/parameter-server", "--mode", WAYS[way][0], "--quick", "--steps", options.steps,
               "--batch", options.batch, "--json", report]
    ranks = [subprocess.Popen([*hosts.enter(rank), *map(str, program)], env=dict(around, RANK=str(rank)), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True) for rank in range(hosts.count)]
    try:
        for number, rank in enumerate(ranks):
            said = rank.communicate(timeout=STARTUP + options.steps * hosts.count)[0]
            if rank.returncode != 0:
                raise RuntimeError(f"{way}, rank {number} of {hosts.count}: {said.strip()}")
    finally:
        for rank in ranks:
            if rank.poll() is None:
                rank.kill()
                rank.wait()
    figures = json.loads(report.read_text())
    rounds = figures["gradients"] / (1 if way == "ring" else figures["workers"])
    return 1e3 * figures["seconds"] / rounds, figures["parameters"]


def measure(options):
    """[{"hosts", "measured": {way: ms}, "predicted": {way: ms}}], and the text of the last hosts."""
    found = []
    for count in options.hosts:
        with namespaces.Hosts(count, f"{options.mbit}mbit") as hosts, tempfile.TemporaryDirectory(prefix="anello-growth-") as scratch:
            directory = pathlib.Path(scratch)
            with open(os.open(directory / "secret", os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
                file.write(os.urandom(16).hex())
            times = {way: [] for way in WAYS}
            for number in range(options.rounds):
                for way in WAYS:
                    milliseconds, weights = run(hosts, way, options, directory)
                    print(f"{count} hosts, round {number + 1}: {way} {milliseconds:.1f} ms", file=sys.stderr, flush=True)
                    times[way].append(milliseconds)
            text = hosts.text()
        found.append({"hosts": count, "measured": {way: statistics.median(values) for way, values in times.items()},
                      "predicted": predicted(options.build, count, weights, options.mbit * 125e3)})
    return found, weights, text


def draw(options, found, facts):
    python = wheels.python(wheels.PLOTTING, str(options.build)) or (sys.executable)
    given = {"rows": found, "names": {way: name for way, (_, name) in WAYS.items()}, "facts": facts,
             "title": f"A round over links of {options.mbit} Mbit/s"}
    drawing = pathlib.Path(__file__).with_name("draw_growth.py")
    done = subprocess.run([python, drawing, options.plot], input=json.dumps(given), text=True, check=False, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise RuntimeError(f"no plot: {done.stdout.strip()[-300:]} (bench/compare/compare --install brings matplotlib)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", default="2,4,8", help="list; at most 16")
    parser.add_argument("--mbit", type=int, default=200, help="rate of each host's link, both ways")
    parser.add_argument("--congestion", default="reno", help="TCP's congestion control on the hosts; reno or bbr, for instance. BBR "
                        "learns a link's rate from long transfers, and a step of the ring is short")
    parser.add_argument("--steps", type=int, default=40, help="gradients of each worker")
    parser.add_argument("--batch", type=int, default=8, help="images of a gradient: few, so that it is the link that counts")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each, of which the median counts")
    parser.add_argument("--markdown", help="file for the table")
    parser.add_argument("--plot", help="file for the plot, as SVG")
    parser.add_argument("--build", default=ROOT / "build", type=lambda text: pathlib.Path(text).resolve())
    options = parser.parse_args()
    options.hosts = [int(item) for item in options.hosts.split(",")]
    if min(options.hosts) < 2 or max(options.hosts) > 16:
        parser.error("2 to 16 hosts")
    if os.geteuid() != 0:
        sys.exit("growth.py: needs root, to make network namespaces and to shape their links; run it with sudo")
    job.leave_on_terminate()
    found, weights, text = measure(options)
    header = ["hosts", *(word for _, name in WAYS.values() for word in (f"{name}, ms", "predicted"))]
    lines = [[str(row["hosts"]), *(f"{row[kind][way]:.0f}" for way in WAYS for kind in ("measured", "predicted"))] for row in found]
    title = f"a round: every worker's gradient of {weights} weights is applied once"
    on = machine.text().split(", TCP congestion")[0]
    facts = (f"{text.split(' ', 1)[1]}; TCP congestion control {options.congestion}; {on}; median of {options.rounds} runs of {options.steps} rounds; "
             f"{datetime.date.today():%-d %B %Y}")
    print(table.as_text(title, header, lines), facts, sep="\n")
    if options.markdown:
        pathlib.Path(options.markdown).write_text(table.as_markdown(title, header, lines) + f"\n\n{facts}\n")
    if options.plot:
        draw(options, found, facts)


if __name__ == "__main__":
    try:
        main()
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        sys.exit(f"growth.py: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
