#!/usr/bin/env python3
"""Jobs of anellorun whose ranks come and go: elastic_test.py REPOSITORY ANELLORUN LIBRARY. Its ranks are processes that
meet and talk as those of hvd.elastic.run do, without torch."""

import os
import pathlib
import signal
import sys
import tempfile
import textwrap
import unittest

import launcher
from launcher import Launcher

REPOSITORY, ANELLORUN, LIBRARY = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
launcher.DEADLINE = 60

BEGIN = """
    import array, os, signal, sys, time
    from anello.errors import AnelloError
    from anello.horovod import launcher

    launched, number, place = launcher.of_this_process(), os.environ["RANK"], os.environ["LOCAL_RANK"]
    hosts = sys.argv[1]

    def say(*words):
        os.write(1, (" ".join(map(str, words)) + os.linesep).encode())

    def meet():
        global comm
        comm = launched.meet(50)
        say("worker", number, "is", comm.rank, "of", comm.size, "with", launched.newcomers, "new")

    def list_hosts(text):
        with open(hosts + ".new", "w") as file:
            file.write(text)
        os.rename(hosts + ".new", hosts)  # a reader sees all of it

    def work_until_it_changes():
        changes = [0, 0]
        while not any(changes):
            time.sleep(0.01)  # a step
            changes = array.array("i", map(int, launched.changes()))
            comm.allreduce(changes, "max")
        say("worker", number, "hears", *changes)
        comm.close()

    def work_until_one_is_lost():
        try:
            while True:
                comm.barrier()
        except AnelloError:
            comm.abort()
            try:
                comm.close()
            except AnelloError:
                pass
"""


class Elastic(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)
        self.hosts = self.scratch / "hosts"
        self.script = self.program_file("discover", f"#!/bin/sh\ncat {self.hosts}\n")

    def program_file(self, name, text):
        path = self.scratch / name
        path.write_text(text)
        path.chmod(0o755)
        return str(path)

    def start(self, options, text=None, program=None, **variables):
        if text is not None:
            self.program_file("worker.py", textwrap.dedent(BEGIN) + textwrap.dedent(text))
            program = [sys.executable, "-B", str(self.scratch / "worker.py"), str(self.hosts)]
        around = {**os.environ, "PYTHONPATH": str(REPOSITORY / "python"), "ANELLO_LIBRARY": str(LIBRARY), **variables}
        job = Launcher(str(ANELLORUN), [*options, *program], env=around)
        self.addCleanup(job.close)
        return job

    def run_job(self, options, text=None, **more):
        """Exit code, lines of output sorted, standard error."""
        code, out, err = self.start(options, text, **more).end()
        return code, sorted(out.splitlines()), err

    def test_ranks_join_and_leave_as_the_script_lists_their_slots(self):
        self.hosts.write_text("localhost:2\n")
        code, out, err = self.run_job(
            ["-np", "2", "--max-np", "3", "--host-discovery-script", self.script], """
            meet()
            if number == "0":
                list_hosts("localhost:5")
            if number != "2":
                work_until_it_changes()
                meet()
            assert comm.size == 3 and int(place) == int(number)
            if number == "0":
                list_hosts("localhost:2")
            work_until_it_changes()
            meet()
            assert comm.size == 2
            comm.close()
        """)
        self.assertEqual((code, out), (0, sorted([
            "worker 0 is 0 of 2 with 2 new", "worker 1 is 1 of 2 with 2 new", "worker 0 hears 1 0",
            "worker 1 hears 1 0", "worker 0 is 0 of 3 with 1 new", "worker 1 is 1 of 3 with 1 new",
            "worker 2 is 2 of 3 with 1 new", "worker 0 hears 0 1", "worker 1 hears 0 1", "worker 2 hears 0 1",
            "worker 0 is 0 of 2 with 0 new", "worker 1 is 1 of 2 with 0 new"])), err)
        self.assertEqual(err, "anellorun: 3 ranks go on, 1 of them new\nanellorun: 2 ranks go on\n")

    def test_a_lost_rank_is_replaced_and_the_oldest_one_is_rank_0(self):
        code, out, err = self.run_job(["-np", "2", "--min-np", "1"], """
            meet()
            if number == "0":
                os.kill(os.getpid(), signal.SIGKILL)
            if number == "1":
                work_until_one_is_lost()
                meet()
            say("place", place, "at the end")
            comm.barrier()
            comm.close()
        """)
        self.assertEqual((code, out), (0, [
            "place 0 at the end", "place 1 at the end", "worker 0 is 0 of 2 with 2 new",
            "worker 1 is 0 of 2 with 1 new", "worker 1 is 1 of 2 with 2 new", "worker 2 is 1 of 2 with 1 new"]), err)
        self.assertIn("ended with signal 9", err)

    def test_without_slots_for_it_a_lost_rank_is_not_replaced(self):
        self.hosts.write_text("localhost:3\n")
        code, out, err = self.run_job(
            ["-np", "3", "--min-np", "2", "--host-discovery-script", self.script], """
            meet()
            if number == "2":
                list_hosts("localhost:2")
            work_until_it_changes()
            if number == "2":
                os.kill(os.getpid(), signal.SIGKILL)
            meet()
            comm.barrier()
        """)
        self.assertEqual((code, [line for line in out if "of 2" in line]), (0, [
            "worker 0 is 0 of 2 with 0 new", "worker 1 is 1 of 2 with 0 new"]), err)

    def test_hosts_that_join_and_are_lost(self):
        self.hosts.write_text("localhost\n")
        shell = self.program_file("remote_shell", "#!/bin/sh\n[ \"$1\" = beta ] && exec sh -c \"$2\"\n")
        code, out, err = self.run_job(
            ["-np", "1", "--max-np", "3", "--host-discovery-script", self.script, "--slots", "1", "-x",
             "ANELLO_TIMEOUT_MS=20000"], """
            meet()
            if number == "0":
                list_hosts("localhost:1 # here\\nbeta:2")
                work_until_it_changes()
                meet()
            if number in "012":
                assert comm.size == 3
                if number == "2":
                    os.kill(os.getppid(), signal.SIGKILL)  # the agent, and with it all that it has started
                work_until_one_is_lost()
                meet()
            comm.barrier()
        """, ANELLO_SSH=shell)
        # What workers 1 and 2 have said may be lost with their host.
        self.assertEqual((code, [line for line in out if "with 2 new" in line and line.split()[1] in "034"]), (0, [
            "worker 0 is 0 of 3 with 2 new", "worker 0 is 0 of 3 with 2 new", "worker 3 is 1 of 3 with 2 new",
            "worker 4 is 2 of 3 with 2 new"]), err)
        self.assertRegex(err, "host beta is lost, with ranks 1 to 2: ")

    def test_a_program_that_always_fails_is_not_started_for_ever(self):
        code, out, err = self.run_job(["-np", "2", "--min-np", "1"], program=["sh", "-c", "echo started; exit 3"])
        self.assertEqual((code, out), (3, ["started"] * 6), err)
        self.assertIn("only 0 ranks can run, and 2 are needed", err)

    def test_the_reset_limit(self):
        code, _, err = self.run_job(["-np", "2", "--min-np", "1", "--reset-limit", "0"], """
            meet()
            if number == "0":
                sys.exit(5)
            work_until_one_is_lost()
            meet()
        """)
        self.assertEqual(code, 5, err)
        self.assertIn("have met anew 0 times, which is all that --reset-limit allows", err)

    def test_too_few_ranks_for_too_long(self):
        self.hosts.write_text("localhost:2\n")
        code, out, err = self.run_job(
            ["-np", "2", "--host-discovery-script", self.script, "--elastic-timeout", "1"], """
            meet()
            if number == "0":
                list_hosts("localhost:1")
            work_until_it_changes()
            meet()
        """)
        self.assertEqual((code, len(out)), (1, 4), err)
        self.assertIn("only 1 rank could be started in 1 s (--elastic-timeout), and 2 are needed", err)

    def test_when_one_has_done_its_work_nobody_takes_its_place(self):
        code, out, err = self.run_job(["-np", "2", "--min-np", "1"], """
            meet()
            comm.barrier()
            comm.close()
            if number == "1":
                time.sleep(0.5)
        """)
        self.assertEqual((code, len(out), err), (0, 2, ""))

    def test_a_signal_ends_the_job(self):
        job = self.start(["-np", "2", "--min-np", "1"], """
            meet()
            signal.pause()
        """)
        job.line(), job.line()
        job.send(signal.SIGTERM)
        code, out, _ = job.end()
        self.assertEqual((code, out), (128 + signal.SIGTERM, ""))

    def test_a_signal_ends_a_job_whose_host_does_not_answer(self):
        for traps, signals in (("", [signal.SIGTERM]), ("trap '' TERM; ", [signal.SIGTERM, signal.SIGTERM])):
            with self.subTest(traps=traps):
                hangs = self.program_file("hanging_shell", f"#!/bin/sh\n{traps}echo $$ >&2\nexec sleep 300\n")
                job = self.start(["-np", "1", "--min-np", "1", "--hosts", "nohost:1"], program=["true"], ANELLO_SSH=hangs)
                pid = job.process.stderr.readline().split()[-1]
                said = ""
                for number in signals:
                    job.send(number)
                    said += job.process.stderr.readline()  # it has been taken
                said += job.process.stderr.read()  # with what readline() has read beyond its line
                self.assertEqual(job.process.wait(launcher.DEADLINE), 128 + signal.SIGTERM, said)
                self.assertIn("the job has ended before its ranks could start", said)
                self.assertEqual(launcher.state(pid), "Z")

    def test_scripts_that_fail(self):
        broken = self.program_file("broken", "#!/bin/sh\nexit 4\n")
        code, _, err = self.run_job(["-np", "1", "--host-discovery-script", broken], program=["true"])
        self.assertEqual((code, err), (126, f"anellorun: the host discovery script {broken}: ended with exit code 4\n"))
        self.hosts.write_text("alpha:-3\n")
        code, _, err = self.run_job(["-np", "1", "--host-discovery-script", self.script], program=["true"])
        self.assertEqual(code, 126)
        self.assertIn("line 1 of its output: 'alpha:-3': the number of ranks on a host", err)
        self.hosts.write_text("localhost:1\n")
        code, _, err = self.run_job(["-np", "1", "--host-discovery-script", self.script], """
            meet()
            os.unlink(hosts)
            time.sleep(3)  # the script runs every second
        """)
        self.assertEqual(code, 0)
        self.assertEqual(err.count("the hosts that it named before stay"), 1, err)

    def test_mistakes(self):
        for options, said in ((["--min-np", "2", "-np", "1"], "-np: is from --min-np to --max-np"),
                              (["--max-np", "2"], "-np: is needed"),
                              (["-np", "2", "--reset-limit", "1"], "--reset-limit: needs"),
                              (["-np", "2", "--min-np", "1", "--bind-to", "core"], "--bind-to: is not for jobs"),
                              (["-np", "2", "--min-np", "1", "--hosts", "localhost"], "-np: is more than the 1 ranks"),
                              (["-np", "2", "--host-discovery-script", "/nothing"], "'/nothing' is no program")):
            with self.subTest(options=options):
                code, _, err = self.run_job(options, program=["true"])
                self.assertEqual(code, 2)
                self.assertIn(said, err)

    def test_a_dry_run(self):
        code, out, err = self.run_job(["-np", "2", "--min-np", "1", "--max-np", "4", "--dry-run"], program=["true"])
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(out, ["each rank: true", "from 1 to 4 ranks; 2 begin", "host localhost: up to 4 ranks"])


if __name__ == "__main__":
    sys.argv[1:4] = []
    unittest.main(verbosity=2)
