#!/usr/bin/env python3
"""tools/gpu-verify: its rows on a fake device, its verdicts and exit codes, and what it says where there is no GPU.

Arguments: the script, the build folder, gpu-verify-device over the fake device."""

import ctypes
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT, BUILD, FAKE = sys.argv[1:4]
del sys.argv[1:4]
DEVICE_ROWS = ("0", "2", "3", "4", "4b", "4c", "4d", "4e", "5", "6", "7", "8", "9")


class Verify(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def verify(self, *arguments, script=SCRIPT, **environment):
        done = subprocess.run([sys.executable, "-B", script, "--build", BUILD, "--out", self.folder / "out", *arguments],
                              capture_output=True, text=True, timeout=200, env={**os.environ, **environment})
        return done, json.loads((self.folder / "out" / "gpu-verify.json").read_text())

    def program(self, body):
        path = self.folder / "program"
        path.write_text("#!/bin/sh\n" + body)
        path.chmod(0o755)
        return path

    def test_the_rows_run_and_the_kernels_are_right_on_the_fake_device(self):
        done, report = self.verify("--device-program", FAKE, "--small", "--rows", "0,3")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(report["counts"]["FAIL"], 0)
        types = [check for check in report["checks"] if check["row"] == "3"]
        self.assertEqual(len(types), 22)
        self.assertEqual({check["verdict"] for check in types}, {"PASS"})
        self.assertIn("float8_e4m3", done.stdout)

    def test_every_rate_has_a_figure_on_the_fake_device(self):
        # The verdicts say nothing there, and what it is compared with needs a GPU; that each row measures what it names does.
        done, report = self.verify("--device-program", FAKE, "--small", "--rows", "2,4,4b,4c,4d,4e")
        for row, least in (("2", 7), ("4", 8), ("4b", 21), ("4c", 9), ("4d", 4), ("4e", 9)):
            checks = [check for check in report["checks"] if check["row"] == row]
            self.assertGreaterEqual(len(checks), least, row)
            for check in checks:
                self.assertTrue(check["figure"] or check["name"] in ("torch.add", "cub::DeviceTransform"), check)

    def test_calls_run_over_the_fake_driver(self):
        fake = pathlib.Path(BUILD) / "test" / "support"
        loads = subprocess.run([sys.executable, "-c", "import ctypes; ctypes.CDLL('libcuda.so.1')"], capture_output=True,
                               text=True, env={**os.environ, "LD_LIBRARY_PATH": str(fake)})
        if loads.returncode != 0 and ("static TLS block" in loads.stderr or "runtime does not come first" in loads.stderr):
            self.skipTest("Python cannot load a library with a sanitizer, and the driver of the tests is one")
        done, report = self.verify("--small", "--rows", "5,6,7", LD_LIBRARY_PATH=str(fake))
        self.assertEqual(done.returncode, 0, done.stdout)
        names = [check["name"] for check in report["checks"] if check["verdict"] == "PASS"]
        self.assertEqual(len(names), 13, done.stdout)
        self.assertLessEqual({"device_calls_test", "in_place_test", "allreduce, 8 threads", "invariant bits"}, set(names))

    def test_each_fault_of_a_kernel_is_found(self):
        for fault, says in (("last element missing", "element"), ("one element more", "wrote outside of the result"),
                            ("sources in another order", "element"), ("every second call differs", "other bits"),
                            ("a source is written to", ""), ("head too short", "(716)")):
            with self.subTest(fault):
                done, report = self.verify("--device-program", FAKE, "--small", "--rows", "3", ANELLO_FAKE_FAULT=fault)
                self.assertEqual(done.returncode, 1, done.stdout)
                failed = [check for check in report["checks"] if check["verdict"] == "FAIL"]
                self.assertTrue(failed)
                self.assertTrue(any(says in check["note"] for check in failed), failed)

    def test_without_a_gpu_every_row_says_why_and_the_exit_code_is_77(self):
        try:
            ctypes.CDLL("libcuda.so.1")
            self.skipTest("this machine has a CUDA driver")
        except OSError:
            pass
        done, report = self.verify("--rows", ",".join(DEVICE_ROWS))
        self.assertEqual(done.returncode, 77, done.stdout)
        for row in DEVICE_ROWS:
            skipped = [check for check in report["checks"] if check["row"] == row and check["verdict"] == "SKIP"]
            self.assertTrue(any("no CUDA driver" in check["note"] for check in skipped), row)
        self.assertIn("nothing was checked on one", done.stdout)
        self.assertEqual(report["counts"]["PASS"] + report["counts"]["FAIL"], 0)

    def test_a_row_that_hangs_is_cut_off_and_keeps_what_it_said(self):
        says = '{"name": "n", "verdict": "PASS", "figure": "1 x", "bound": "", "note": ""}'
        hangs = self.program(f"echo '{says}'\nsleep 100")
        done, report = self.verify("--device-program", hangs, "--rows", "4", "--limit", "1")
        self.assertEqual(done.returncode, 1)
        self.assertEqual([check["name"] for check in report["checks"]], ["time", "n"])
        self.assertIn("cut off: the row may take 1", report["checks"][0]["note"])

    def test_the_limit_is_the_rows_not_each_programs(self):
        says = '{"name": "float32 64 MiB launched", "verdict": "INFO", "figure": "1 us", "bound": "", "note": ""}'
        # The second one has none of the limit left. With one of its own it would live for a second.
        sleeps = self.program(f"echo '{says}'; case $0 in *cub) sleep 1; > {self.folder}/lived;; esac; sleep 20")
        (self.folder / "build/tools/gpu").mkdir(parents=True)
        (self.folder / "build/tools/gpu/gpu-verify-cub").symlink_to(sleeps)
        done, report = self.verify("--device-program", sleeps, "--rows", "4d", "--limit", "3", "--build",
                                   self.folder / "build")
        self.assertFalse((self.folder / "lived").exists())
        failed = [check["name"] for check in report["checks"] if check["verdict"] == "FAIL"]
        self.assertEqual(failed, ["time", "cub::DeviceTransform"])

    def test_a_program_that_dies_or_is_silent_fails_its_row(self):
        for body, says in (("echo broken; exit 3", "ended with 3: broken"), ("exit 0", "reported nothing"),
                           ("kill -9 $$", "ended with -9")):
            done, report = self.verify("--device-program", self.program(body), "--rows", "4e")
            self.assertEqual(done.returncode, 1)
            self.assertIn(says, report["checks"][-1]["note"])

    def test_a_figure_beyond_its_bound_fails(self):
        slow = self.program("""echo '{"name": "n", "verdict": "FAIL", "figure": "0.5 B", "bound": "", "note": ""}'; exit 1""")
        done, report = self.verify("--device-program", slow, "--rows", "4")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(report["counts"], {"PASS": 0, "FAIL": 1, "SKIP": 0, "INFO": 0})

    def test_a_carried_folder_runs_on_its_own(self):
        carried = self.folder / "carried"
        done = subprocess.run([sys.executable, "-B", SCRIPT, "--build", BUILD, "--carry", carried], capture_output=True,
                              text=True, timeout=60)
        if done.returncode == 1 and "missing: kernels" in done.stdout:
            self.skipTest("the CUDA kernels were left out of this build")
        self.assertEqual(done.returncode, 0, done.stdout)
        names = {file.name for file in carried.iterdir()}
        self.assertLessEqual({"gpu-verify", "gpu-verify-device", "libanello_cuda.so.0", "torch_sums.py", "torch_group.py", "anello"}, names)
        done, report = self.verify("--device-program", FAKE, "--small", "--rows", "3", "--build", "/nowhere",
                                   script=carried / "gpu-verify")
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_an_unknown_row_is_refused(self):
        done = subprocess.run([sys.executable, "-B", SCRIPT, "--rows", "99"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("no row is called 99", done.stderr)

    def test_ratios_are_of_equal_names_and_bounded_by_size(self):
        source = pathlib.Path(SCRIPT).read_text()
        space = {"__name__": "gpu_verify", "__file__": SCRIPT}
        exec(compile(source, SCRIPT, "exec"), space)  # it has no suffix to be imported by
        checks = space["Checks"]("4d")
        ours = [{"float32 1 MiB replayed": 3.0, "float32 64 MiB launched": 50.0, "float32 256 MiB launched": 210.0,
                 "only ours": 1.0}] * 3
        theirs = [{"float32 1 MiB replayed": 2.0, "float32 64 MiB launched": large, "float32 256 MiB launched": 200.0}
                  for large in (50.0, 40.0, 51.0)]  # one turn of three is disturbed
        space["compare"](checks, "torch.add", ours, theirs, 1.02, 1.2)
        self.assertEqual([(check["name"].split(" beside")[0], check["verdict"]) for check in checks],
                         [("float32 1 MiB replayed", "FAIL"), ("float32 64 MiB launched", "PASS"),
                          ("float32 256 MiB launched", "FAIL")])


if __name__ == "__main__":
    unittest.main(verbosity=2)
