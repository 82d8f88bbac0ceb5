"""Starts jobs of rank.py for the tests of what shows a job."""

import os
import pathlib
import shutil
import signal
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tools"))
from launcher import Launcher  # noqa: E402

PYTHON = str(HERE.parent.parent / "python")


class JobTest(unittest.TestCase):
    """launcher: the words that start a program on several ranks; library: libanello."""
    launcher = None
    library = None

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.dumps = os.path.join(self.folder, "dumps")
        self.addCleanup(shutil.rmtree, self.folder)

    def words(self, ranks):
        """The launcher, and its options for rank.py."""
        # The launcher ends the others half a second after the first that fails, which is too soon on a busy machine.
        return self.launcher, ["-np", str(ranks), "--keep-going", sys.executable, "-B"]

    def start(self, role, who=0, before=5, ranks=4, **variables):
        """Returns when all ranks are ready. self.pids: theirs."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ANELLO_")}
        environment |= {"PYTHONPATH": PYTHON, "ANELLO_LIBRARY": self.library, "ANELLO_TIMEOUT_MS": "20000"} | variables
        launcher, options = self.words(ranks)
        job = Launcher(launcher, [*options, str(HERE / "rank.py"), role, str(who), str(before)], env=environment)
        self.addCleanup(job.close)
        self.addCleanup(job.send, signal.SIGTERM)
        self.pids = {}
        while len(self.pids) < ranks:
            words = job.line().split()
            self.assertTrue(words, "the job ended early")
            if words[2:3] == ["ready"]:
                self.pids[int(words[1].rstrip(":"))] = int(words[3])
        return job

    def errors(self, job, count):
        """The next errors that ranks report, by rank."""
        errors = {}
        while len(errors) < count:
            line = job.line()
            self.assertTrue(line, "the job ended early")
            if ": error " in line:
                errors[int(line.split()[1].rstrip(":"))] = line
        return errors
