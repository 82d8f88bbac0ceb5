#!/usr/bin/env python3
"""The distribution anello-horovod, and scripts that import horovod.torch under the launchers that are at hand:
horovod_face_test.py REPOSITORY ANELLORUN LIBRARY"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

import interpreter

REPOSITORY, ANELLORUN, LIBRARY = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
PYTHON = interpreter.or_skip(REPOSITORY)
FACE = REPOSITORY / "python/anello-horovod"
DEADLINE = 100
PROGRAM = """
    import os
    import torch
    import horovod.torch as hvd
    hvd.init()
    line = f"{hvd.rank()} of {hvd.size()}: {hvd.allreduce(torch.ones(1), op=hvd.Sum).item():g}"
    os.write(1, (line + os.linesep).encode())  # in one piece: ranks share the pipe
"""


class Face(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)
        self.around = interpreter.environment(REPOSITORY, LIBRARY, self.scratch)

    def run_program(self, text, *before, fails=False, path=FACE):
        program = self.scratch / "program.py"
        program.write_text(textwrap.dedent(text))
        around = {**self.around, "PYTHONPATH": os.pathsep.join([str(path), self.around["PYTHONPATH"]])}
        ended = subprocess.run([*before, PYTHON, "-W", "ignore", str(program)], env=around, timeout=DEADLINE, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, cwd=self.scratch)
        self.assertEqual(ended.returncode != 0, fails, ended.stdout)
        return ended.stdout

    def with_horovod(self):
        """As if Horovod were installed."""
        metadata = self.scratch / "horovod-0.28.1.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: horovod\nVersion: 0.28.1\n")

    def test_all_names_are_those_of_the_package(self):
        out = self.run_program("""
            import horovod
            import horovod.torch as hvd, anello.horovod.torch as ours
            import horovod.torch.elastic
            from horovod.torch.elastic.sampler import ElasticSampler
            from horovod.torch.elastic.state import TorchState
            for name in ours.__all__:
                if name != "elastic":
                    assert getattr(hvd, name) is getattr(ours, name), name
            assert hvd.elastic.TorchState is TorchState is ours.elastic.TorchState
            assert hvd.elastic.ElasticSampler is ElasticSampler and hvd.elastic.run is ours.elastic.run
            try:
                horovod.run(print, np=2)
            except NotImplementedError as error:
                print(error)
        """)
        self.assertIn("anellorun", out)

    def test_beside_horovod_importing_fails_and_says_why(self):
        self.with_horovod()
        self.assertIn("are both installed", self.run_program("import horovod.torch", fails=True))

    def test_beside_horovod_installing_fails_and_says_why(self):
        self.with_horovod()
        ended = self.wheel(PYTHONPATH=str(self.scratch))
        self.assertNotEqual(ended.returncode, 0)
        self.assertIn("would overwrite its modules", ended.stdout)

    def wheel(self, **environment):
        asked = subprocess.run([PYTHON, "-c", "import setuptools; print(setuptools.__version__)"], text=True,
                               timeout=DEADLINE, capture_output=True, check=False)
        if asked.returncode != 0 or [int(part) for part in asked.stdout.split(".")[:2]] < [70, 1]:
            self.skipTest("the Python with torch has no setuptools of version 70.1 or later")
        source = self.scratch / "source"
        shutil.copytree(FACE, source, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
        return subprocess.run([
            PYTHON, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index", "--wheel-dir",
            self.scratch, source
        ], env={**os.environ, "PYTHONPATH": "", **environment}, timeout=DEADLINE, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)

    def test_the_wheel_works_and_that_of_anello_does_not_bring_it(self):
        ended = self.wheel()
        self.assertEqual(ended.returncode, 0, ended.stdout)
        wheel, = self.scratch.glob("anello_horovod-*.whl")
        target = self.scratch / "installed"
        subprocess.run([PYTHON, "-m", "pip", "install", "--no-deps", "--no-index", "--target", target, wheel],
                       check=True, capture_output=True, timeout=DEADLINE)
        self.assertEqual(self.run_program(PROGRAM, path=target), "0 of 1: 1\n")
        self.assertIn("No module named 'horovod'", self.run_program("import horovod", path=self.scratch, fails=True))

    def test_one_process_without_a_launcher(self):
        self.assertEqual(self.run_program(PROGRAM), "0 of 1: 1\n")

    def test_launchers(self):
        torchrun = [PYTHON, "-W", "ignore", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
                    "--no-python"]
        launchers = [[str(ANELLORUN), "-np", "2"], torchrun]
        mpirun = shutil.which("mpirun")
        if mpirun:
            launchers.append([mpirun, "--allow-run-as-root", "--oversubscribe", "-np", "2"])
        for launcher in launchers:
            with self.subTest(launcher=launcher):
                said = [line for line in self.run_program(PROGRAM, *launcher).splitlines() if " of " in line]
                self.assertEqual(sorted(said), ["0 of 2: 2", "1 of 2: 2"])


if __name__ == "__main__":
    sys.argv[1:4] = []
    unittest.main(verbosity=2)
