#!/usr/bin/env python3
"""Both parameter servers, C++ and Python: parameter_server_test.py ANELLORUN PROGRAM REPOSITORY LIBRARY [PRELOAD].
Synchronous
workers equal one worker with all of the batch, asynchronous ones learn from stale gradients, and go on when one of them
is killed."""

import json
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

LAUNCHER, PROGRAM, REPOSITORY, LIBRARY = (pathlib.Path(argument).resolve() for argument in sys.argv[1:5])
PRELOAD = pathlib.Path(sys.argv[5]).resolve() if len(sys.argv) > 5 else None
sys.path.insert(0, str(REPOSITORY / "test/python"))
import interpreter  # noqa: E402

interpreter.images_or_skip()
COMMAND = [interpreter.or_skip(REPOSITORY), "-W", "ignore", PROGRAM] if PROGRAM.suffix == ".py" else [PROGRAM]


class ParameterServer(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.json = pathlib.Path(scratch.name) / "report.json"
        self.around = interpreter.environment(REPOSITORY, LIBRARY, scratch.name)

    def train(self, ranks, *options):
        """The report of a run, whose last epoch is the only one."""
        command = [LAUNCHER, "-np", str(ranks), *COMMAND, "--quick", "--json", self.json, *options]
        done = subprocess.run(command, env=self.around, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        print(f"{ranks} ranks {' '.join(options)}: {done.stdout}", file=sys.stderr)
        report = json.loads(self.json.read_text())
        self.assertEqual(report["workers"], ranks - 1)
        self.assertEqual(sum(report["staleness"]), report["gradients"])
        self.assertEqual(len(report["epochs"]), 1)
        return report

    def test_synchronous_workers_equal_one_worker_with_all_of_the_batch(self):
        one = self.train(2, "--mode", "sync", "--batch", "200")
        two = self.train(3, "--mode", "sync", "--batch", "100")
        self.assertGreater(one["epochs"][0]["accuracy"], 0.65)
        self.assertLess(abs(one["epochs"][0]["accuracy"] - two["epochs"][0]["accuracy"]), 0.003)
        self.assertLess(abs(one["epochs"][0]["loss"] - two["epochs"][0]["loss"]), 1e-4)
        self.assertEqual((one["updates"], one["gradients"]), (60, 60))
        self.assertEqual((two["updates"], two["gradients"]), (60, 120))
        self.assertEqual(two["staleness"], [120])

    def test_asynchronous_workers_learn_from_stale_gradients(self):
        for mode in ("async", "dc-asgd"):
            report = self.train(4, "--mode", mode, "--batch", "50")
            self.assertEqual((report["updates"], report["gradients"]), (240, 240))
            self.assertGreater(report["epochs"][0]["accuracy"], 0.7)
            self.assertGreater(sum(report["staleness"][1:]), 60)

    def test_compensation_acts_on_stale_gradients_alone(self):
        alone = [self.train(2, "--mode", mode, "--compensation", "1e7")["epochs"][0]["loss"] for mode in ("async", "dc-asgd")]
        self.assertEqual(alone[0], alone[1])
        # So much of it is harmful, where asynchronous workers learn without it.
        several = self.train(4, "--mode", "dc-asgd", "--batch", "50", "--compensation", "1e7")
        self.assertLess(several["epochs"][0]["accuracy"], 0.5)

    def start(self, ranks, *options, around_the_second_worker=None):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        started = []
        for rank in range(ranks):
            around = {**self.around, "RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1",
                      "MASTER_PORT": str(port), **((around_the_second_worker or {}) if rank == 2 else {})}
            started.append(subprocess.Popen([*COMMAND, "--quick", "--json", self.json, *options], env=around, stdout=subprocess.PIPE,
                                            stderr=subprocess.STDOUT, text=True))
            self.addCleanup(self.end, started[-1])
        return started

    def end(self, process):
        process.kill()
        process.communicate()

    def after_the_first_epoch(self, server):
        for line in server.stdout:
            if line.startswith("epoch 1 "):
                return
        self.fail("the server ended before an epoch")

    def kill_the_second_worker(self, mode):
        """A server whose second worker is killed while all of them work, the two other workers, and the gradients that
        each is to send. On a busy machine this test may see the first epoch after the last: then there are more."""
        for steps in (300, 1200, 4800):
            server, *workers = self.start(4, "--mode", mode, "--steps", str(steps))
            self.after_the_first_epoch(server)
            for worker in workers:
                worker.send_signal(signal.SIGSTOP)
            if all(worker.poll() is None for worker in workers):
                first, killed, third = workers
                killed.kill()
                killed.wait()
                for worker in (first, third):
                    worker.send_signal(signal.SIGCONT)
                return server, (first, third), steps
            for process in (server, *workers):
                self.end(process)
        self.fail("every worker ended before it could be killed")

    def test_asynchronous_workers_go_on_without_one_that_is_killed(self):
        for mode in ("async", "dc-asgd"):
            with self.subTest(mode=mode):
                self.go_on(*self.kill_the_second_worker(mode))

    def go_on(self, server, others, steps):
        """The end of a job without its second worker."""
        said, _ = server.communicate(timeout=120)
        self.assertEqual(server.returncode, 0, said)
        self.assertIn("worker 2 is lost, and 2 go on: ", said)
        self.assertEqual([worker.wait(30) for worker in others], [0, 0])
        report = json.loads(self.json.read_text())
        self.assertEqual(report["lost"], [2])
        self.assertGreaterEqual(report["gradients"], 2 * steps)  # all of the other two
        self.assertLess(report["gradients"], 3 * steps)
        self.assertGreater(report["epochs"][-1]["accuracy"], report["epochs"][0]["accuracy"])

    def test_a_worker_killed_between_its_gradient_and_the_announcement_is_lost(self):
        if PRELOAD is None:
            self.skipTest("of the C++ workers alone")
        for mode in ("async", "dc-asgd"):
            with self.subTest(mode=mode):
                dies = {"LD_PRELOAD": str(PRELOAD), "KILLED_BEFORE": "40", "ASAN_OPTIONS": "verify_asan_link_order=0"}
                server, first, _, third = self.start(4, "--mode", mode, "--steps", "300", around_the_second_worker=dies)
                self.go_on(server, (first, third), 300)

    def test_a_synchronous_server_names_the_worker_that_was_killed(self):
        server, others, _ = self.kill_the_second_worker("sync")
        said, _ = server.communicate(timeout=60)
        self.assertNotEqual(server.returncode, 0)
        self.assertIn("rank 2", said)
        self.assertIn("is lost", said)
        for other in others:
            said, _ = other.communicate(timeout=60)
            self.assertNotEqual(other.returncode, 0)
            self.assertIn("rank 0", said)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
