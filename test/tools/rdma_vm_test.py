"""tools/rdma-vm: a command's output, status and files, its devices, and its deadline.

Arguments: the repository; the folder where tools/setup.sh (virtual_machine) has put the machine.
"""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

RDMA_VM = pathlib.Path(sys.argv[1]) / "tools/rdma-vm"
MACHINE = sys.argv[2]

COMMAND = """
rdma link
echo "from $SENDER" >&2
touch here || echo "read-only"
echo changed > given/file
exit 7
"""


def run(*arguments, **options):
    return subprocess.run([RDMA_VM, "--machine", MACHINE, *arguments], capture_output=True, text=True, timeout=600, check=False,
                          **options)


def running(word):
    """The processes with this word in their command lines."""
    found = {}
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_text(errors="replace")
        except OSError:
            continue
        if word in line:
            found[path.parent.name] = line
    return found


class RdmaVm(unittest.TestCase):
    def setUp(self):
        lacking = run("--why-not").stdout.strip()
        if lacking:
            self.skipTest(lacking)

    def test_a_command_has_the_devices_and_the_files_and_its_status_comes_back(self):
        with tempfile.TemporaryDirectory() as directory:
            given = pathlib.Path(directory, "given")
            given.mkdir()
            ran = run("--machine", os.path.relpath(MACHINE, directory), "--write", given, "sh", "-c", COMMAND, cwd=directory, env={**os.environ, "SENDER": "it's \"me\""})
            self.assertEqual(ran.returncode, 7, ran)
            for device in ("rxe0", "rxe1"):
                self.assertRegex(ran.stdout, f"link {device}/1 state ACTIVE")
            self.assertIn("from it's \"me\"", ran.stderr)
            self.assertEqual((given / "file").read_text(), "changed\n")
            # /tmp takes what is written, and the host's does not get it.
            self.assertFalse(pathlib.Path(directory, "here").exists())

    def test_a_command_that_does_not_end_is_ended_with_its_machine(self):
        with tempfile.TemporaryDirectory() as directory:
            environment = {**os.environ, "TMPDIR": directory}
            ran = run("--deadline", "3", "sleep", "1000", env=environment)
            self.assertEqual(ran.returncode, 124, ran)
            self.assertIn("3 s, the deadline", ran.stderr)
            self.assertEqual(running(directory), {})
            self.assertEqual(os.listdir(directory), [])

    def test_its_machine_ends_with_it(self):
        for how in (signal.SIGTERM, signal.SIGKILL):
            with tempfile.TemporaryDirectory() as directory:
                with subprocess.Popen([RDMA_VM, "--machine", MACHINE, "sleep", "1000"], env={**os.environ, "TMPDIR": directory},
                                      stderr=subprocess.DEVNULL) as ran:
                    while not any("qemu" in line for line in running(directory).values()):
                        self.assertIsNone(ran.poll())
                        time.sleep(0.05)
                    ran.send_signal(how)
                    ran.wait(60)
                end = time.monotonic() + 30
                while running(directory) and time.monotonic() < end:
                    time.sleep(0.05)
                self.assertEqual(running(directory), {})

    def test_it_says_what_is_missing(self):
        with tempfile.TemporaryDirectory() as empty:
            ran = subprocess.run([RDMA_VM, "--machine", empty, "true"], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(ran.returncode, 125)
            self.assertIn("vmlinuz", ran.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
