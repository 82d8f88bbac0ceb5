"""All-reduce between hosts with slow links: Anello, Open MPI and Gloo, bus bandwidth as a share of the link. The hosts
are network namespaces of this machine, which needs root; they are removed at the end. Run it as bench/compare/compare
link."""

import argparse
import datetime
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

import hosts as namespaces
import job
import libraries
import machine
import settings
import table

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KIB, MIB = 1 << 10, 1 << 20
SIZES = (64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB)
LINK_BYTES = 125e6  # a second; 1gbit

BATCH = 0.05  # seconds: much longer than the burst that a link takes at once


def goal(size):
    """The least share of the link; None if the best peer is the target."""
    return None if size < 256 * KIB else 0.88 if size < MIB else 0.92


# Open MPI reaches a host through a program that takes the host's name, here its address, and a command.
AGENT = """#!/bin/sh
host={tag}h$((${{1##*.}} - 1))
shift
exec ip netns exec "$host" unshare --uts sh -c 'hostname "$0"; exec sh -c "$*"' "$host" "$@"
"""


class Launcher:
    """libraries.commands for ranks on separate hosts."""

    def __init__(self, hosts, directory):
        self.hosts = hosts
        self.secret = os.path.join(directory, "secret")
        self.agent = os.path.join(directory, "agent")
        with open(os.open(self.secret, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
            file.write(os.urandom(16).hex())
        with open(os.open(self.agent, os.O_WRONLY | os.O_CREAT, 0o700), "w", encoding="ascii") as file:
            file.write(AGENT.format(tag=hosts.tag))

    def commands(self, setting, ranks, build, loop_arguments):
        program = [libraries.loop_program(setting.library, build), *loop_arguments, "--transport", "tcp", *setting.loop]
        environment = dict(os.environ, COMPARE_INTERFACE=self.hosts.interface, COMPARE_RANK_FROM="RANK",
                           ANELLO_SECRET_FILE=self.secret, MASTER_ADDR=self.hosts.address(0), MASTER_PORT="29477")
        environment.update(dict(setting.environment))
        if setting.library == "Open MPI":
            return [(self._open_mpi(setting, ranks, build, program), environment)]
        return [([*self.hosts.enter(rank), *program], dict(environment, RANK=str(rank), WORLD_SIZE=str(ranks)))
                for rank in range(ranks)]

    def _open_mpi(self, setting, ranks, build, program):
        net = f"{self.hosts.net}.0/24"
        places = ",".join(self.hosts.address(rank) for rank in range(ranks))
        options = {"plm_rsh_agent": self.agent, "plm_rsh_no_tree_spawn": 1, "oob_tcp_if_include": net,
                   "btl_tcp_if_include": net, "mpi_yield_when_idle": 1, "orte_keep_fqdn_hostnames": 1}
        passed = [word for name, _ in setting.environment for word in ("-x", name)]
        return [libraries.launcher("Open MPI", build), "--allow-run-as-root", "--bind-to", "none", "-H", places,
                *(word for name, value in options.items() for word in ("--mca", name, str(value))), *passed,
                "-x", "COMPARE_RANK_FROM=OMPI_COMM_WORLD_RANK", *setting.arguments, "-np", str(ranks), *program]


SENDER = "import socket,sys;s=socket.create_connection((sys.argv[1],29476));s.sendall(bytes(int(sys.argv[2])));s.close()"
RECEIVER = """
import socket, sys, time
listening = socket.create_server((sys.argv[1], 29476)); print("ready", flush=True); listening.settimeout(20)
connection = listening.accept()[0]; connection.settimeout(20); got = len(connection.recv(1 << 20)); begin = time.monotonic()
rest = 0
while piece := connection.recv(1 << 20): rest += len(piece)
print(rest / (time.monotonic() - begin))
"""


def plain_rate(hosts):
    """The bytes per second of one TCP connection, one way: the rate of the link for the simplest program."""
    receiver = subprocess.Popen([*hosts.enter(0), sys.executable, "-c", RECEIVER, hosts.address(0)],
                                stdout=subprocess.PIPE, text=True)
    try:
        receiver.stdout.readline()
        subprocess.run([*hosts.enter(1), sys.executable, "-c", SENDER, hosts.address(0), str(40 * MIB)], check=True,
                       timeout=30)
        return float(receiver.communicate(timeout=30)[0])
    finally:
        if receiver.poll() is None:
            receiver.kill()
            receiver.wait()


def share(ranks, size, micros):
    """Bus bandwidth, as nccl-tests define it, relative to the link's."""
    return 2 * (ranks - 1) / ranks * size / (micros * 1e-6) / LINK_BYTES


def measure(hosts, options, chosen, failures):
    """The rows of all rounds; a library that fails is noted and not tried again."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="anello-link-") as directory:
        launcher = Launcher(hosts, directory)
        for number in range(options.rounds):
            order = [setting for setting in chosen if setting.key not in failures]
            random.Random(number).shuffle(order)
            for setting in order:
                print(f"{hosts.count} hosts, round {number + 1}: {setting.key}", file=sys.stderr, flush=True)
                # A library that is slower than a twentieth of the link is dropped.
                limit = int(20 + sum(12 * share(hosts.count, size, 1e6) * 20 for size in options.sizes))
                try:
                    found = job.run(setting, hosts.count, options.sizes, options.build, min(limit, options.limit),
                                    ["--window", str(options.window), "--variants", "untouched", "--batch", str(BATCH)],
                                    launcher.commands)
                except job.JobFailed as failure:
                    found = failure.rows
                    failures[setting.key] = str(failure)
                for row in found:
                    row.update(library=setting.library, setting=setting.name, transport="link", round=number)
                rows += found
    return rows


def lines_of(rows, ranks, sizes):
    """(header, lines, missed)"""
    names = [name for name in ("Anello", "Open MPI", "Gloo") if any(row["library"] == name for row in rows)]
    lines, missed = [], []
    results = {size: {} for size in sizes}
    for (_, of, _, size, _), found in table.figures(rows).items():
        if of == ranks:
            results[size] = found
    for size in sizes:
        found = results[size]
        line = [table.size_text(size)]
        for name in names:
            figure = found.get(name)
            line.append(f"{share(ranks, size, figure.micros):.1%}{table.MARK_WORDS[figure.mark]} ({figure.setting})"
                        if figure else "-")
        verdict = ""
        if "Anello" in found:
            own, peer, least = found["Anello"], table.best_peer(found), goal(size)
            reached = share(ranks, size, own.micros)
            if least is not None:
                verdict = f">= {least:.0%} {'ok' if reached >= least else 'MISSED'}"
            elif peer:
                ratio = table.ratio(own, found[peer])[0]
                verdict = f"time {ratio:.2f} of {peer}'s, <= 1 {'ok' if ratio <= 1 else 'MISSED'}"
            if verdict.endswith("MISSED"):
                missed.append(f"{ranks} hosts, {line[0]}: {reached:.1%}, {verdict}")
        lines.append([*line, verdict])
    return ["size", *names, "target"], lines, missed


def parse():
    parser = argparse.ArgumentParser(prog="bench/compare/compare link", description=__doc__)
    parser.add_argument("--hosts", default="4,8", help="list, default 4,8; at most 16")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--window", type=float, default=0.3, help="seconds for one size")
    parser.add_argument("--limit", type=int, default=150, help="most seconds for one library in a round")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="list in bytes")
    parser.add_argument("--markdown", help="file for the tables")
    parser.add_argument("--targets", action="store_true", help="exit with 1 if a target is missed")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), type=os.path.abspath)
    options = parser.parse_args()
    options.hosts = [int(item) for item in options.hosts.split(",")]
    options.sizes = [int(item) for item in options.sizes.split(",")]
    if min(options.hosts) < 2 or max(options.hosts) > 16:
        parser.error("2 to 16 hosts")
    if os.geteuid() != 0:
        sys.exit("compare link: needs root, to make network namespaces and to shape their links; run it with sudo")
    return options


def main():
    options = parse()
    job.leave_on_terminate()
    begin = time.monotonic()
    left_out = {name: why for name in ("Anello", "Open MPI", "Gloo") if (why := libraries.missing(name, options.build))}
    chosen = [setting for setting in settings.LINK_SETTINGS if setting.library not in left_out]
    shown, missed, failed = [], [], {}
    for count in options.hosts:
        with namespaces.Hosts(count, "1gbit") as hosts:
            plain = statistics.median(plain_rate(hosts) for _ in range(3))
            facts = f"{hosts.text()}; one plain connection: {plain / LINK_BYTES:.1%} of the link"
            failures = {}
            rows = measure(hosts, options, chosen, failures)
            failed.update({f"{key}, {count} hosts": why for key, why in failures.items()})
        header, lines, of_count = lines_of(rows, count, options.sizes)
        shown.append((f"all-reduce, float32 sum, {count} hosts: bus bandwidth over the link's\n{facts}", header, lines))
        missed += of_count
    notes = [f"Machine: {machine.text()}", f"Date: {datetime.datetime.now().astimezone().isoformat(timespec='minutes')}, "
             f"{time.monotonic() - begin:.0f} s"]
    notes += [table.MARK_NOTES[mark] for mark, words in table.MARK_WORDS.items()
              if words and any(words in cell for _, _, lines in shown for line in lines for cell in line)]
    notes += [f"Left out: {name}: {why}" for name, why in left_out.items()]
    notes += [f"Failed: {key}: {why}" for key, why in failed.items()]
    print("\n\n".join(table.as_text(*item) for item in shown) + "\n\n" + "\n".join(notes))
    if options.markdown:
        with open(options.markdown, "w", encoding="utf-8") as file:
            file.write("\n\n".join(table.as_markdown(title.replace("\n", "; "), *rest) for title, *rest in shown))
            file.write("\n\n" + "\n".join(f"- {note}" for note in notes) + "\n")
    if options.targets:
        print("\n".join(f"Target missed: {text}" for text in missed) or "All targets met.")
    own_failed = any(key.startswith("Anello/") for key in failed)
    return 1 if own_failed or (options.targets and missed) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        sys.exit(f"compare link: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
