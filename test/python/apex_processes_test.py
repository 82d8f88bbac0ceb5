#!/usr/bin/env python3
"""The module apex in processes of its own: its launcher, an Apex script as it is, its refusal beside another apex, and
its wheel. apex_processes_test.py REPOSITORY ANELLORUN LIBRARY"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
import zipfile

import interpreter

REPOSITORY, ANELLORUN, LIBRARY = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
PYTHON = interpreter.or_skip(REPOSITORY)
DEADLINE = 50
SCRIPT = """
    import argparse
    import torch
    try:
        from apex.parallel import DistributedDataParallel as DDP, convert_syncbn_model
        from apex.fp16_utils import *
        from apex import amp, optimizers
        from apex.multi_tensor_apply import multi_tensor_applier
    except ImportError:
        raise ImportError("Please install apex")

    parser = argparse.ArgumentParser()
    parser.add_argument("--world-size", type=int, default=1)
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--opt-level", default="O2")
    args = parser.parse_args()
    torch.distributed.init_process_group(backend="anello", init_method="env://", world_size=args.world_size,
                                         rank=args.rank)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1))
    model = convert_syncbn_model(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    model, optimizer = amp.initialize(model, optimizer, opt_level=args.opt_level)
    model = DDP(model, delay_allreduce=True)
    for _ in range(3):
        loss = model(torch.randn(16, 4)).square().mean()
        optimizer.zero_grad()
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()
    print("rank", args.rank, "of", torch.distributed.get_world_size(), "ended", flush=True)
    torch.distributed.destroy_process_group()
"""


class Processes(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)
        self.around = interpreter.environment(REPOSITORY, LIBRARY, self.scratch)
        self.program = self.scratch / "program.py"

    def python(self, *words, succeeds=True, **environment):
        ended = subprocess.run([PYTHON, "-W", "ignore", *map(str, words)], env={**self.around, **environment},
                               timeout=DEADLINE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               check=False, cwd=self.scratch)
        self.assertEqual(ended.returncode == 0, succeeds, ended.stdout)
        return ended.stdout

    def multiproc(self, *words, script=SCRIPT, **named):
        self.program.write_text(textwrap.dedent(script))
        return self.python("-m", "apex.parallel.multiproc", *words, **named)


class Launcher(Processes):
    def test_ranks_of_a_script_written_for_apex(self):
        out = self.multiproc("--world-size", 2, self.program, "--opt-level", "O1")
        self.assertIn("Selected optimization level O1", out)
        self.assertIn("rank 0 of 2 ended", out)
        self.assertNotIn("rank 1", out)
        self.assertIn("rank 1 of 2 ended", (self.scratch / "GPU_1.log").read_text())

    def test_a_rank_that_fails_ends_the_others(self):
        out = self.multiproc("--world-size", 2, self.program, succeeds=False, script="""
            import sys, time
            if sys.argv[-1] == "1":
                sys.exit(7)
            time.sleep(20)
            open("not ended", "w").close()
        """)
        self.assertFalse((self.scratch / "not ended").exists())
        self.assertIn("rank 1 ended with 7, so the others are ended; its output is in GPU_1.log", out)

    def test_a_signal_ends_the_ranks_too(self):
        self.program.write_text("import os, time\nopen(f'{os.getpid()}.pid', 'w').close()\ntime.sleep(30)\n")
        command = [PYTHON, "-W", "ignore", "-m", "apex.parallel.multiproc", "--world-size", "2", self.program]
        with subprocess.Popen(command, env=self.around, cwd=self.scratch) as launcher:
            until = time.monotonic() + DEADLINE
            while len(list(self.scratch.glob("*.pid"))) < 2 and time.monotonic() < until:
                time.sleep(0.05)
            launcher.terminate()
            self.assertEqual(launcher.wait(DEADLINE), 143)
        pids = [int(each.stem) for each in self.scratch.glob("*.pid")]
        self.assertEqual(len(pids), 2)
        for each in pids:
            with self.assertRaises(ProcessLookupError):
                os.kill(each, 0)

    def test_ranks_by_environment(self):
        self.multiproc(self.program, "--world-size", 2, script="""
            import os, sys
            names = "RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"
            values = [os.environ[name] for name in names]
            assert values[0] == values[1] == sys.argv[-1] and values[2] == "2" and values[3] == "127.0.0.1", values
            assert sys.argv[1:] == ["--world-size", "2", "--rank", values[0]], sys.argv
            int(values[4])
        """)

    def test_words_that_it_does_not_understand(self):
        out = self.python("-c", textwrap.dedent("""
            from apex.parallel.multiproc import main

            for words in ([], ["--world-size", "0", "x.py"], ["--world-size", "2"], ["--world-size"], ["x.py"]):
                try:
                    assert main(words) != 0
                except SystemExit as ended:
                    print(ended)
        """), CUDA_VISIBLE_DEVICES="")
        for said in ("python -m apex.parallel.multiproc", "no number of ranks", "no script", "needs a number",
                     "give --world-size N"):
            self.assertIn(said, out)


class Beside(Processes):
    def test_it_refuses_beside_an_installed_apex(self):
        metadata = self.scratch / "apex-0.1.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: apex\nVersion: 0.1\n")
        out = self.python("-c", "from apex.parallel import LARC", succeeds=False)
        self.assertIn("ImportError: the distribution apex 0.1 is installed", out)
        self.assertIn("pip uninstall", out)

    def test_it_refuses_beside_another_folder_of_that_name(self):
        other = self.scratch / "apex"
        other.mkdir()
        self.python("-c", "import apex")  # that folder is no package yet
        (other / "__init__.py").write_text("")
        out = self.python("-c", "import apex.amp", PYTHONSAFEPATH="1", succeeds=False)
        self.assertIn(f"ImportError: there is another apex in {other}", out)

    def test_anello_alone_has_no_module_apex(self):
        path = [each for each in self.around["PYTHONPATH"].split(os.pathsep) if "anello-apex" not in each]
        out = self.python("-c", "import anello.apex, apex", succeeds=False, PYTHONPATH=os.pathsep.join(path))
        self.assertIn("No module named 'apex'", out)

    def test_importing_anello_does_not_import_torch_or_its_face_of_apex(self):
        out = self.python("-c", "import sys, anello; print(*sys.modules)").split()
        self.assertEqual([name for name in out if "torch" in name or "apex" in name], [])

    def test_wheels(self):
        asked = subprocess.run([PYTHON, "-c", "import setuptools; print(setuptools.__version__)"], capture_output=True,
                               text=True, timeout=DEADLINE, check=False)
        if asked.returncode != 0 or [int(part) for part in asked.stdout.split(".")[:2]] < [70, 1]:
            self.skipTest("the Python with torch has no setuptools of version 70.1 or later")
        held = {}
        for name in ("anello", "anello-apex"):
            source = self.scratch / f"source of {name}"
            folder = REPOSITORY / "python" / ("" if name == "anello" else name)
            shutil.copytree(folder, source, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
            self.python("-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index", "--wheel-dir",
                        self.scratch, source)
            wheel, = self.scratch.glob(f"{name.replace('-', '_')}-*.whl")
            held[name] = {each for each in zipfile.ZipFile(wheel).namelist() if each.endswith(".py")}
        for name, folder in (("anello", "anello/apex"), ("anello-apex", "apex")):
            place = REPOSITORY / "python" / ("" if name == "anello" else name)
            expected = {str(each.relative_to(place)) for each in (place / folder).rglob("*.py")}
            self.assertEqual({each for each in held[name] if each.startswith(folder)}, expected)
        self.assertFalse(any(each.startswith("apex/") for each in held["anello"]))


if __name__ == "__main__":
    sys.argv[1:4] = []
    unittest.main(verbosity=2)
