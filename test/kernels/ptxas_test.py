#!/usr/bin/env python3
"""No kernel spills registers or has a stack frame, on any architecture, and all kernels are there: read off ptxas' report.

Arguments: nvcc, then for each image its list of kernels and its report; or --left-out and why there are none."""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
REGISTERS = 64  # more, and two blocks of 512 threads do not fit a multiprocessor

ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'")
FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
LISTED = re.compile(r"^ANELLO_\w*KERNEL\((\w+),", re.M)


def kernels(report):
    """(name, architecture) -> [stack frame, spill stores, spill loads, registers]."""
    found, current = {}, None
    for line in report.splitlines():
        if match := ENTRY.search(line):
            current = found.setdefault(match.groups(), [None] * 4)
        elif match := FRAME.search(line):
            current[:3] = map(int, match.groups())
        elif match := USED.search(line):
            current[3] = int(match[1])
    return found


def faults(report):
    lines = []
    for (name, architecture), (frame, stores, loads, registers) in kernels(report).items():
        if None in (frame, registers):
            lines.append(f"{name} for {architecture}: ptxas says nothing of its registers")
        elif frame or stores or loads or registers > REGISTERS:
            lines.append(f"{name} for {architecture}: {frame} bytes of stack, {stores} + {loads} spilled, "
                         f"{registers} registers")
    return lines


SPILLING = """
extern "C" __global__ void indexed(int *into, const int *from) {
  int held[64] = {};
  for (int i = 0; i < from[0]; ++i) held[from[i] & 63] += i;
  into[0] = held[into[1] & 63];
}
extern "C" __global__ void plain(int *into, const int *from) { into[0] = from[0]; }
"""


class Ptxas(unittest.TestCase):
    nvcc, images = None, []

    def test_no_kernel_spills_or_has_a_stack_frame(self):
        for listing, report in self.images:
            self.assertEqual(faults(pathlib.Path(report).read_text()), [], report)

    def test_every_kernel_was_compiled_for_every_architecture(self):
        total = 0
        for listing, report in self.images:
            names = LISTED.findall(pathlib.Path(listing).read_text())
            wanted = {(name, architecture) for name in names for architecture in ARCHITECTURES}
            self.assertEqual(set(kernels(pathlib.Path(report).read_text())), wanted)
            total += len(names)
        self.assertGreater(total, 200)

    def test_a_kernel_that_indexes_registers_is_found_out(self):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder, "spilling.cu")
            source.write_text(SPILLING)
            done = subprocess.run([self.nvcc, "-arch=sm_90", "-Xptxas", "-v", "-cubin", "-o", folder + "/out", source],
                                  check=True, capture_output=True, text=True, timeout=120)
        found = faults(done.stdout + done.stderr)
        self.assertEqual(len(found), 1, found)
        self.assertRegex(found[0], r"^indexed for sm_90: [1-9]\d* bytes of stack")

    def test_spills_and_many_registers_and_silence_are_found_out(self):
        head = "ptxas info    : Compiling entry function 'k' for 'sm_90'\n"
        good = head + "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\nptxas info : Used 64 registers\n"
        self.assertEqual(faults(good), [])
        self.assertEqual(len(faults(good.replace("0 bytes spill loads", "4 bytes spill loads"))), 1)
        self.assertEqual(len(faults(good.replace("64 reg", "65 reg"))), 1)
        self.assertEqual(len(faults(head)), 1)


if __name__ == "__main__":
    if sys.argv[1] == "--left-out":
        print(f"the CUDA kernels were not built: {sys.argv[2]}")
        sys.exit(77)
    Ptxas.nvcc, *files = sys.argv[1:]
    Ptxas.images = list(zip(files[::2], files[1::2]))
    unittest.main(argv=sys.argv[:1], verbosity=2)
