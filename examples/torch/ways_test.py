#!/usr/bin/env python3
"""Each way to start training reaches on two ranks what one process reaches with the same global batch, and ranks end
bit-equal. ways_test.py REPOSITORY ANELLORUN LIBRARY (horovod_, apex_ and parameter_server_test.py look at those)."""

import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import unittest

REPOSITORY, LAUNCHER, LIBRARY = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
sys.path.insert(0, str(REPOSITORY / "test/python"))
import interpreter  # noqa: E402

PYTHON = [interpreter.or_skip(REPOSITORY), "-W", "ignore"]
interpreter.images_or_skip()
HERE = REPOSITORY / "examples/torch"


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


class Ways(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.scratch = pathlib.Path(scratch.name)
        cls.around = interpreter.environment(REPOSITORY, LIBRARY, scratch.name)
        cls.report = cls.scratch / "report.json"
        cls.alone = cls.train([*PYTHON, HERE / "fashion_mnist.py"])

    @classmethod
    def train(cls, *commands):
        """The report of programs that run at once."""
        cls.report.unlink(missing_ok=True)
        started = [subprocess.Popen([*words, "--quick", "--json", cls.report], env=cls.around, stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT, text=True, cwd=cls.scratch) for words in commands]
        try:
            said = [each.communicate(timeout=150)[0] for each in started]
        finally:
            for each in started:
                if each.poll() is None:
                    each.kill()
                    each.wait()
        assert all(each.returncode == 0 for each in started), said
        print(*said, file=sys.stderr)
        return json.loads(cls.report.read_text())

    def equals_one_process(self, report, ranks=2):
        self.assertEqual(report["ranks"], ranks)
        self.assertTrue(report["equal"])
        mine, alone = report["epochs"][-1], self.alone["epochs"][-1]
        self.assertGreater(alone["accuracy"], 0.72)
        self.assertLess(abs(mine["accuracy"] - alone["accuracy"]), 0.005)
        self.assertLess(abs(mine["loss"] - alone["loss"]), 1e-3)

    def test_torchrun(self):
        run = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", free_port()]
        self.equals_one_process(self.train([*PYTHON, *run, HERE / "ddp_torchrun.py"]))

    def test_our_launcher(self):
        self.equals_one_process(self.train([LAUNCHER, "-np", "2", *PYTHON, HERE / "ddp_torchrun.py"]))

    def test_the_launcher_before_torchrun(self):
        launch = ["-m", "torch.distributed.launch", "--nproc-per-node", "2", "--master-port", free_port()]
        self.equals_one_process(self.train([*PYTHON, *launch, HERE / "ddp_launch.py", "--backend", "anello"]))

    def test_local_rank_as_older_launchers_wrote_it(self):
        ranks = [LAUNCHER, "-np", "2", "sh", "-c", 'exec "$@" --local_rank $LOCAL_RANK', "sh"]
        self.equals_one_process(self.train([*ranks, *PYTHON, HERE / "ddp_launch.py"]))

    def test_spawn_and_a_port(self):
        url = f"tcp://127.0.0.1:{free_port()}"
        self.equals_one_process(self.train([*PYTHON, HERE / "ddp_spawn.py", "--world-size", "2", "--dist-url", url]))

    def test_a_file(self):
        meeting = ["--init-file", "meeting", "--world-size", "2"]
        self.equals_one_process(self.train(*[[*PYTHON, HERE / "ddp_file.py", *meeting, "--rank", rank] for rank in "01"]))
        self.assertFalse((self.scratch / "meeting").exists())

    def test_one_process_with_two_devices(self):
        self.equals_one_process(self.train([*PYTHON, HERE / "data_parallel.py", "--devices", "cpu", "cpu"]), ranks=1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
