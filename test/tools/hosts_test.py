#!/usr/bin/env python3
"""anellorun --hosts over a real sshd, on this machine's loopback. Arguments: the program, an all-reduce."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
import cases  # noqa: E402
import ssh_hosts  # noqa: E402
from launcher import DEADLINE, Launcher, state, until  # noqa: E402

ALLREDUCE = os.path.abspath(sys.argv.pop())
ANELLORUN = os.path.abspath(sys.argv.pop())
WHY_NOT = ssh_hosts.why_not()
WAITS = "sleep 300"
LOST_WITHIN = 20  # as --help says


def children(pid):
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        found += (task / "children").read_text().split()
    return [int(each) for each in found]


def word(pid, number):
    words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return words[number].decode() if len(words) > number else ""


@unittest.skipIf(WHY_NOT, WHY_NOT)
class Hosts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hosts = ssh_hosts.OnLoopback("alpha", "beta")
        cls.addClassCleanup(cls.hosts.close)

    def start(self, *arguments, hosts="alpha:2,beta:2", **more):
        environment = self.hosts.environment() | more.pop("variables", {})
        launcher = Launcher(ANELLORUN, ["--hosts", hosts, *arguments], env=environment, **more)
        self.addCleanup(launcher.close)
        return launcher

    def shell(self, script, *options, **more):
        return self.start(*options, "sh", "-c", script, **more)

    def agents(self, launcher):
        """The pids of the agents over ssh, by host."""
        found = {}
        shells = children(launcher.process.pid)
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if word(entry.name, 1) != "--agent":
                    continue
                host = self.host_of(int(entry.name))
            except (OSError, ValueError):
                continue
            if host:
                found[host] = int(entry.name)
        self.assertTrue(shells)
        return found

    def host_of(self, agent):
        for rank in children(agent):
            variables = dict(each.split("=", 1) for each in
                             pathlib.Path(f"/proc/{rank}/environ").read_text().split("\0") if "=" in each)
            if variables.get("TEST") == str(os.getpid()):
                return "alpha" if int(variables["RANK"]) < 2 else "beta"
        return None

    def waiting(self, *options, script=None, **more):
        """A job whose ranks have said their pids and wait."""
        launcher = self.shell(script or f"echo $RANK $$; exec {WAITS}", "-x", f"TEST={os.getpid()}", *options, **more)
        lines = [launcher.line().split() for _ in range(4)]
        return launcher, {int(rank): int(pid) for rank, pid in lines}

    # -- what ranks find ------------------------------------------------------------------------------------------

    def test_ranks_are_numbered_host_by_host_and_meet_at_one_place(self):
        names = "$RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $MASTER_ADDR $MASTER_PORT $ANELLO_JOB"
        code, out, err = self.shell(f"echo {names}", hosts="alpha:1,beta:3").end()
        self.assertEqual((code, err), (0, ""))
        rows = sorted(line.split() for line in out.splitlines())
        self.assertEqual([row[:4] for row in rows], [["0", "0", "4", "1"], ["1", "0", "4", "3"], ["2", "1", "4", "3"], ["3", "2", "4", "3"]])
        self.assertEqual(len({tuple(row[4:]) for row in rows}), 1)

    def test_collectives_work_over_the_hosts(self):
        code, out, err = self.start(ALLREDUCE).end()
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(sorted(out.splitlines()), [f"rank {rank} of 4: 6 4 12" for rank in range(4)])

    def test_this_machine_needs_no_ssh(self):
        code, out, err = self.start("sh", "-c", "echo $RANK", hosts="localhost:2,127.0.0.1", variables={"ANELLO_SSH": "/bin/false"}).end()
        self.assertEqual((code, sorted(out.split()), err), (0, ["0", "1", "2"], ""))

    def test_a_place_with_an_ipv6_address_is_named_with_brackets(self):
        script = f"[ $RANK = 0 ] || exec {ALLREDUCE}"
        code, _, err = self.shell(script, "--rdzv-endpoint", "[::1]:29444", hosts="localhost:2").end()
        self.assertEqual(code, 1)
        self.assertIn("rank 0 has ended without opening the meeting place [::1]:29444\n", err)

    def test_a_host_file_and_a_number_of_ranks(self):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("# my machines\nalpha slots=3 max_slots=9\n\nbeta:2  # the small one\n")
            file.flush()
            for options, expected in [((), ["0 3", "1 3", "2 3", "3 2", "4 2"]), (("-np", "4"), ["0 3", "1 3", "2 3", "3 1"]),
                                      (("-np", "2"), ["0 2", "1 2"])]:
                launcher = Launcher(ANELLORUN, ["--hostfile", file.name, *options, "sh", "-c", "echo $RANK $LOCAL_WORLD_SIZE"],
                                    env=self.hosts.environment())
                self.addCleanup(launcher.close)
                code, out, err = launcher.end()
                self.assertEqual((code, sorted(out.splitlines()), err), (0, expected, ""))

    def test_ranks_start_in_this_folder_with_this_shells_variables(self):
        with tempfile.TemporaryDirectory() as folder:
            code, out, _ = self.shell('echo "$(pwd) $ONE"', cwd=folder, variables={"ONE": "a 'b\nc"}).end()
            self.assertEqual((code, out), (0, f"{folder} a 'b\nc\n" * 4))
            code, out, _ = self.shell("pwd", "--wdir", folder).end()
            self.assertEqual((code, out), (0, f"{folder}\n" * 4))

    def test_standard_input_goes_to_rank_0(self):
        text = "".join(f"line {number}\n" for number in range(100_000))
        code, out, err = self.shell("cat", stdin=subprocess.PIPE).end(text)
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(out, text)

    # -- the secret -----------------------------------------------------------------------------------------------

    def test_the_secret_is_everywhere_the_same_and_nowhere_to_be_seen(self):
        show = "head -c 100 /proc/self/fd/$ANELLO_SECRET_FD | od -An -v -tx1 | tr -d ' \\n'; echo; exec sleep 300"
        launcher = self.shell(show)
        secrets = {launcher.line() for _ in range(4)}
        self.assertEqual(len(secrets), 1)
        text = secrets.pop()
        self.assertRegex(text, "^[0-9a-f]{64}$")
        secret, looked = bytes.fromhex(text), 0
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            for name in ("cmdline", "environ"):
                try:
                    shown = (entry / name).read_bytes()
                except OSError:
                    continue
                looked += 1
                for form in (secret, text.encode(), secret[:8]):
                    self.assertNotIn(form, shown, entry)
        self.assertGreater(looked, 10)
        launcher.send(signal.SIGTERM)
        self.assertEqual(launcher.end()[0], 143)

    # -- output ---------------------------------------------------------------------------------------------------

    def test_output_arrives_whole_with_the_ranks_number_before_each_line(self):
        code, out, _ = self.shell("head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end >&1; printf rest", "--tag-output").end()
        self.assertEqual(code, 0)
        self.assertEqual(out.count("x"), 12_000_000)
        for rank in range(4):
            self.assertEqual(out.count(f"[{rank}] end\n"), 1)
            self.assertEqual(out.count(f"[{rank}] rest\n"), 1)

    def test_a_reader_that_leaves_ends_the_job(self):
        launcher = self.start("yes")
        self.assertEqual(launcher.line(), "y")
        launcher.process.stdout.close()
        self.assertEqual(launcher.process.wait(DEADLINE), 128 + signal.SIGPIPE)

    def test_a_reader_that_does_not_read_keeps_no_death_secret(self):
        launcher = self.shell("if [ $RANK = 3 ]; then sleep 1; exit 7; fi; exec yes")
        self.assertRegex(launcher.process.stderr.readline(), r"rank 3 \(host beta, pid \d+\) ended with exit code 7$")
        self.assertEqual(launcher.end()[0], 7)

    # -- ends -----------------------------------------------------------------------------------------------------

    def test_a_rank_that_fails_is_named_with_its_host_and_the_others_are_ended(self):
        # It fails once the others have said their pids: half a second later they are ended.
        script = ("echo $RANK $$; > said$RANK; [ $RANK = 2 ] || exec " + WAITS + "; "
                  "until [ -e said0 -a -e said1 -a -e said3 ]; do sleep 0.01; done; exit 3")
        with tempfile.TemporaryDirectory() as folder:
            launcher, pids = self.waiting(script=script, cwd=folder)
            code, _, err = launcher.end()
        self.assertEqual(code, 3)
        self.assertEqual(err.splitlines()[0], f"anellorun: rank 2 (host beta, pid {pids[2]}) ended with exit code 3")
        self.assertEqual([state(pid) for pid in pids.values()], ["Z"] * 4)

    def test_no_process_of_the_job_outlives_it(self):
        code, out, _ = self.shell(f"setsid {WAITS} >&- 2>&- & echo $!; (trap '' TERM; {WAITS}) & echo $!").end()
        self.assertEqual(code, 0)
        pids = out.split()
        self.assertEqual(len(pids), 8)
        self.assertEqual([state(pid) for pid in pids], ["Z"] * 8)

    def test_timeout_ends_ranks_that_will_not(self):
        code, _, err = self.shell("trap '' TERM; while :; do sleep 0.05; done", "--timeout", "0.5").end()
        self.assertEqual(code, 124)
        self.assertIn("ending 4 ranks", err)

    def test_signals_reach_the_ranks_and_their_ends_come_back(self):
        script = "trap 'echo got it; exit 9' USR1; echo ready; while :; do sleep 0.02; done"
        launcher = self.shell(script)
        self.assertEqual([launcher.line() for _ in range(4)], ["ready"] * 4)
        launcher.send(signal.SIGUSR1)
        code, out, _ = launcher.end()
        self.assertEqual((code, out), (9, "got it\n" * 4))

    def test_a_second_interrupt_kills(self):
        launcher = self.shell("trap '' INT TERM; echo ready; while :; do sleep 0.05; done")
        self.assertEqual([launcher.line() for _ in range(4)], ["ready"] * 4)
        launcher.send(signal.SIGINT)
        self.assertIn("passed on", launcher.process.stderr.readline())
        launcher.send(signal.SIGINT)
        self.assertEqual(launcher.end()[0], 130)

    def test_a_stopped_launcher_stops_its_ranks_and_goes_on_with_them(self):
        launcher, pids = self.waiting()
        launcher.send(signal.SIGTSTP)
        until(lambda: all(state(pid) == "T" for pid in pids.values()), "the ranks stand still")
        launcher.send(signal.SIGCONT)
        until(lambda: all(state(pid) == "S" for pid in pids.values()), "the ranks go on")
        launcher.send(signal.SIGTERM)
        self.assertEqual(launcher.end()[0], 143)

    def lost(self, launcher, pids, *expected):
        begin = time.monotonic()
        code, _, err = launcher.end()
        self.assertLess(time.monotonic() - begin, LOST_WITHIN)
        self.assertEqual(code, 125, err)
        for each in expected:
            self.assertIn(each, err)
        until(lambda: all(state(pid) == "Z" for pid in pids.values()), "no rank is left")

    def test_an_agent_that_dies_ends_the_job(self):
        launcher, pids = self.waiting()
        os.kill(self.agents(launcher)["beta"], signal.SIGKILL)
        self.lost(launcher, pids, "host beta is lost, with ranks 2 to 3: the connection to its agent is gone")

    def test_an_agent_that_stands_still_ends_the_job(self):
        launcher, pids = self.waiting()
        agent = self.agents(launcher)["beta"]
        os.kill(agent, signal.SIGSTOP)
        begin = time.monotonic()
        code, _, err = launcher.end()
        self.assertLess(time.monotonic() - begin, LOST_WITHIN)
        self.assertEqual(code, 125)
        self.assertIn("host beta is lost, with ranks 2 to 3: nothing has been heard from its agent for 15 s", err)
        os.kill(agent, signal.SIGCONT)
        until(lambda: all(state(pid) == "Z" for pid in pids.values()), "no rank is left")

    def test_an_ssh_that_dies_ends_the_job(self):
        launcher, pids = self.waiting()
        shells = {host: pid for pid in children(launcher.process.pid) for host in ("alpha", "beta")
                  if host in pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")}
        os.kill(shells["alpha"], signal.SIGKILL)
        self.lost(launcher, pids, "host alpha is lost, with ranks 0 to 1", "ended with signal 9 (Killed)")

    def test_with_keep_going_the_other_hosts_live(self):
        with tempfile.TemporaryDirectory() as folder:
            launcher, pids = self.waiting("--keep-going", script="echo $RANK $$; until [ -e go ]; do sleep 0.05; done; echo $RANK lives",
                                          cwd=folder)
            os.kill(self.agents(launcher)["beta"], signal.SIGKILL)
            self.assertIn("host beta is lost", launcher.process.stderr.readline())
            pathlib.Path(folder, "go").touch()
            code, out, _ = launcher.end()
        self.assertEqual((code, sorted(out.splitlines())), (0, ["0 lives", "1 lives"]))

    def test_ranks_end_when_the_launcher_is_killed(self):
        launcher, pids = self.waiting()
        launcher.process.kill()
        until(lambda: all(state(pid) == "Z" for pid in pids.values()), "the ranks are gone")

    # -- what cannot start ----------------------------------------------------------------------------------------

    def test_what_cannot_start_is_named_with_its_host(self):
        for hosts, options, code, said in [
                ("alpha,gamma", ["true"], 126, "host gamma: no agent could be started: ssh ended with exit code 255 (ssh: Could not resolve"),
                ("alpha,beta", ["--agent-path", "/no/anellorun", "true"], 126, "anellorun must be there under the same path"),
                ("alpha,beta", ["--wdir", "/no/folder", "true"], 126, "the folder /no/folder: No such file or directory"),
                ("alpha,beta", ["./no-program"], 127, "cannot start './no-program' on host"),
                ("alpha,beta", ["/etc/passwd"], 126, "Permission denied")]:
            with self.subTest(hosts=hosts, options=options):
                ended, _, err = self.start(*options, hosts=hosts).end()
                self.assertEqual(ended, code, err)
                self.assertIn(said, err)

    def test_an_ssh_that_is_not_there_is_named(self):
        code, _, err = self.start("true", variables={"ANELLO_SSH": "no-such-shell -x"}).end()
        self.assertEqual(code, 126)
        self.assertIn("cannot start 'no-such-shell': No such file or directory", err)

    def test_something_else_than_an_agent_is_not_believed(self):
        with tempfile.TemporaryDirectory() as folder:
            fake = pathlib.Path(folder) / "ssh"
            fake.write_text("#!/bin/sh\nprintf '\\n\\001anellorun agent\\002\\n'; head -c 100000 /dev/zero\n")
            fake.chmod(0o755)
            code, _, err = self.start("true", variables={"ANELLO_SSH": str(fake)}).end()
        self.assertEqual(code, 126)
        self.assertIn("does not speak as this version of anellorun does", err)

    def test_mistakes_in_hosts_are_named(self):
        for hosts in ("", "alpha:0", "alpha:x", "-oProxyCommand=x", "al pha", "alpha:99999", "[::1]2", ",", "a;b"):
            with self.subTest(hosts=hosts):
                code, _, err = self.start("true", hosts=hosts).end()
                self.assertEqual(code, 2, err)
                self.assertIn("host", err)


if __name__ == "__main__":
    cases.run()
