"""What anello-plan scale predicts beside what anello-perf measures, for single calls between hosts with slow links. The
hosts are network namespaces of this machine, which needs root; they are removed at the end. Run it as
bench/compare/compare scale.

All ranks meet before each call, since calls back to back overlap. Queues in front of the links are long, since the
prediction knows nothing of lost packets. It gets the links' rate, less what Ethernet, IP and TCP add to each packet, and
the latency of 8 bytes between two of the hosts. Nothing is fitted to the measured collectives."""

import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import hosts as namespaces
import job
import machine
import table

ROOT = pathlib.Path(__file__).resolve().parents[2]
CALLS = ("allreduce:ring,allreduce:doubling,allreduce:halving,broadcast:tree,allgather:ring,reduce_scatter:ring,"
         "alltoall:pairwise,gather:direct")
PAYLOAD = 1448 / 1514  # of a full packet: the rest is Ethernet, IP and TCP with time stamps
WITH_PARTS = {"allgather", "reduce_scatter", "alltoall", "gather", "scatter"}  # --count is that of one part
DEADLINE = 120  # seconds for the calls of one row


def micros(hosts, options, ranks, collective, algorithm, size):
    """The median of a run's calls. A call is measured as too short where the root enters it after the others."""
    with tempfile.TemporaryDirectory(prefix="anello-scale-") as directory:
        report, secret = os.path.join(directory, "report.json"), os.path.join(directory, "secret")
        with open(os.open(secret, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
            file.write(os.urandom(16).hex())
        around = dict(os.environ, WORLD_SIZE=str(ranks), MASTER_ADDR=hosts.address(0), MASTER_PORT="29478",
                      ANELLO_SECRET_FILE=secret, ANELLO_TCP_CONGESTION=options.congestion)
        if algorithm:
            around["ANELLO_ALGORITHM"] = f"{collective}:{algorithm}"
        program = [options.build / "bench/anello-perf", "--collective", collective, "-b", size, "-e", size, "--dirty",
                   "-I", "-n", options.calls, "-w", 2, "--no-ceilings"]
        started = []
        try:
            for rank in range(ranks):
                words = [*hosts.enter(rank), *map(str, program), *(["-J", report] if rank == 0 else [])]
                started.append(subprocess.Popen(words, env=dict(around, RANK=str(rank)), stdout=subprocess.PIPE,
                                                stderr=subprocess.STDOUT, text=True))
            deadline = time.monotonic() + DEADLINE
            for rank, each in enumerate(started):
                said = each.communicate(timeout=max(deadline - time.monotonic(), 1))[0]
                if each.returncode != 0:
                    raise RuntimeError(f"{collective}, rank {rank} of {ranks}: {said.strip()[-500:]}")
        finally:
            for each in started:
                if each.poll() is None:
                    each.kill()
                    each.wait()
        with open(report, encoding="utf-8") as file:
            row = json.load(file)["results"][0]
    return (row["out_of_place"] or row["in_place"])["median"]


def predicted(options, ranks, collective, algorithm, size, latency):
    """Microseconds of a call."""
    count = size // 4 // (ranks if collective in WITH_PARTS else 1)
    words = ["scale", collective, "-a", algorithm, "-r", ranks, "--network", "-c", count, "--json", "--latency", latency,
             "--rate", options.mbit * PAYLOAD / 1000]
    said = subprocess.run([options.build / "tools/anello-plan", *map(str, words)], check=True, capture_output=True,
                          text=True, timeout=60).stdout
    return 1e6 * json.loads(said)["algorithms"][0]["seconds"]


def rows_of(hosts, options):
    """Lines of the table, and how far each prediction is off."""
    ranks = hosts.count
    latency = statistics.median(micros(hosts, options, 2, "sendrecv", None, 8) for _ in range(options.rounds))
    lines, off = [], []
    print(f"{ranks} hosts: other programs use {machine.others_now():.1f} processors", file=sys.stderr, flush=True)
    for collective, algorithm in options.cases:
        took = min(micros(hosts, options, ranks, collective, algorithm, options.size) for _ in range(options.rounds))
        said = predicted(options, ranks, collective, algorithm, options.size, latency)
        off.append(100 * (said / took - 1))
        lines.append([str(ranks), collective, algorithm, f"{took / 1e3:.1f}", f"{said / 1e3:.1f}", f"{off[-1]:+.0f} %"])
        print(*lines[-1], f"(latency {latency:.0f} us)", file=sys.stderr, flush=True)
    return lines, off


def parse():
    parser = argparse.ArgumentParser(prog="bench/compare/compare scale", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", default="4,8,16", help="list; 2 to 16 each")
    parser.add_argument("--mbit", type=int, default=200, help="rate of each host's link, both ways")
    parser.add_argument("--queue", default="200ms", help="the delay of the queue in front of a link when it is full")
    parser.add_argument("--size", type=int, default=4 << 20, help="bytes of the larger buffer of a rank")
    parser.add_argument("--cases", default=CALLS, help="list of collective:algorithm")
    parser.add_argument("--calls", type=int, default=5, help="of each run, of which the median counts")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each, of which the fastest counts: other programs "
                        "make them slower")
    parser.add_argument("--congestion", default="reno", help="TCP's congestion control; BBR learns a link's rate from "
                        "long transfers, and these are short")
    parser.add_argument("--markdown", type=pathlib.Path, help="file for the table")
    parser.add_argument("--within", type=float, help="exit with 1 if a prediction is off by more percent")
    parser.add_argument("--build", default=ROOT / "build", type=lambda words: pathlib.Path(words).resolve())
    options = parser.parse_args()
    options.hosts = [int(item) for item in options.hosts.split(",")]
    options.cases = [item.split(":") for item in options.cases.split(",")]
    if min(options.hosts) < 2 or max(options.hosts) > 16:
        parser.error("2 to 16 hosts")
    if os.geteuid() != 0:
        sys.exit("compare scale: needs root, to make network namespaces and to shape their links; run it with sudo")
    return options


def main():
    options = parse()
    job.leave_on_terminate()
    lines, off = [], []
    for count in options.hosts:
        with namespaces.Hosts(count, f"{options.mbit}mbit", options.queue) as hosts:
            of_count = rows_of(hosts, options)
            facts = hosts.text().split(" ", 1)[1]
        lines += of_count[0]
        off += of_count[1]
    title = f"{table.size_text(options.size)} over links of {options.mbit} Mbit/s"
    header = ["hosts", "collective", "algorithm", "measured, ms", "predicted, ms", "off by"]
    facts = (f"{facts}; TCP congestion control {options.congestion}; {machine.text().split(', TCP congestion')[0]}; fastest "
             f"of {options.rounds} runs of {options.calls} calls each; {datetime.date.today():%-d %B %Y}")
    print(table.as_text(title, header, lines), facts, sep="\n")
    if options.markdown:
        options.markdown.write_text(f"{table.as_markdown(title, header, lines)}\n\n{facts}\n", encoding="utf-8")
    most = max(map(abs, off))
    if options.within is not None and most > options.within:
        sys.exit(f"compare scale: a prediction is off by {most:.0f} %, more than {options.within:g} %")


if __name__ == "__main__":
    try:
        main()
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        sys.exit(f"compare scale: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
