"""The rows of gpu-verify in which ranks call with device buffers: 5 to 11. A carried folder has it beside the script."""

import ctypes
import importlib.util
import json
import os
import pathlib
import shutil
import sys
import tempfile

ROWS = {
    "5": ("calls with device buffers", 120),
    "6": ("calls in streams and graphs", 60),
    "7": ("calls that run on the device", 120),
    "8": ("the same with MPS", 90),
    "9": ("compute-sanitizer", 180),
    "10": ("calls with PyTorch's tensors", 120),
    "11": ("PyTorch's groups on a GPU", 90),
}
FILES = {
    "libanello": "lib/api/libanello.so.0",
    "anellorun": "tools/anellorun",
    "anello-perf": "bench/anello-perf",
    "device_calls_test": "test/device/device_calls_test",
    "in_place_test": "test/device/in_place_test",
}
KiB, MiB = 1 << 10, 1 << 20
TORCH_CALLS = "gpu/torch_calls.py"
TORCH_GROUP = "gpu/torch_group.py"
# How PyTorch gets a device's memory: whole allocations, pieces that are mapped, and a pool of the driver.
ALLOCATORS = {"default": "", "expandable": "expandable_segments:True", "async": "backend:cudaMallocAsync"}
# What several processes on one device do, by which transport.
CALLS = (("allreduce", 2, "shm"), ("allreduce", 4, "shm"), ("allreduce", 2, "tcp"), ("alltoall", 2, "shm"),
         ("broadcast", 2, "shm"), ("sendrecv", 2, "shm"))
# Bounds in microseconds of an all-reduce of two processes. Half of gloo's time (docs/gpu-results.md) at 1 MiB.
BOUNDS = {KiB: 60, 64 * KiB: 60, MiB: 480, 16 * MiB: 700, 256 * MiB: 1200}
MPS_BOUNDS = {KiB: 12, 64 * KiB: 12, MiB: 12}
# Of the copy rate over the 2 P S bytes that an all-reduce of P ranks of S bytes moves.
THREADS_SHARE, MPS_SHARE = 0.80, 0.80


def last_line(output):
    return (output.strip().splitlines() or ["no output"])[-1]


def verdict_of_tests(output, code):
    last = last_line(output)
    return ("PASS", last, "all pass") if code == 0 else ("FAIL", "", "all pass", last)


class CallRows:
    """Uses path(), run(), left(), options and absent of the verification that it is part of."""

    def environment(self):
        """Programs find the library and the kernels, also in a carried folder."""
        found = [self.path(what) for what in ("libanello", "kernels")]
        folders = [folder for folder in [os.environ.get("LD_LIBRARY_PATH")] if folder]
        folders += [str(path.parent) for path in found if path]
        return ["env", "LD_LIBRARY_PATH=" + ":".join(folders)]

    def has_driver(self, checks):
        try:
            ctypes.CDLL("libcuda.so.1")
            return True
        except OSError as why_not:
            self.absent = True
            checks.put("row " + checks.row, "SKIP", note=f"no CUDA driver: {why_not}")
            return False

    def programs(self, checks, *names):
        found = [self.path(name) for name in names]
        missing = [name for name, path in zip(names, found) if path is None]
        if missing:
            checks.put("programs", "FAIL", note=", ".join(missing) + " not built")
            return None
        return found if self.has_driver(checks) else None

    def tool(self, checks, name, comes_with):
        found = shutil.which(name)
        if found is None:
            checks.put(name, "SKIP", note=f"not installed: it comes with {comes_with}")
        return found

    def tests(self, checks, name):
        found = self.programs(checks, name)
        if found is None:
            return
        output, code = self.run(checks, [*self.environment(), found[0], "~[fake]~[invariant]", "--durations", "yes"])
        if code is not None:
            checks.put(name, *verdict_of_tests(output, code))

    def measure(self, checks, name, command, judge):
        """Runs anello-perf over device memory. judge(bytes, microseconds): verdict, bound."""
        report = self.options.out / "perf.json"
        report.unlink(missing_ok=True)
        output, code = self.run(checks, [*self.environment(), *command, "-w", "3", "--memory", "device",
                                         "--no-ceilings", "--json", report])
        if code != 0 or not report.is_file():
            if code is not None:
                checks.put(name, "FAIL", note=f"ended with {code}: {last_line(output)}")
            return
        for row in json.loads(report.read_text())["results"]:
            figures = row["in_place"] or row["out_of_place"]
            right = not any((row[place] or {}).get("nwrong") for place in ("in_place", "out_of_place"))
            verdict, bound = ("INFO", "") if self.options.small else judge(row["size"], figures["time"])
            checks.put(f"{name}, {row['size']} B", verdict if right else "FAIL",
                       f"{figures['time']:.1f} us, {figures['alg_bw']:.2f} GB/s", bound,
                       "" if right else "wrong results")
        checks.put(name, "PASS", "all results right", "no wrong element")

    def sizes(self):
        return ["-b", "1K", "-e", "64K" if self.options.small else "256M", "-f", "16" if self.options.small else "4",
                "-n", "20"]

    def row_5(self, checks):
        """Every result is checked; times are medians of anello-perf's batches."""
        found = self.programs(checks, "anellorun", "anello-perf")
        for collective, ranks, transport in CALLS if found else ():
            bounds = BOUNDS if (collective, ranks, transport) == CALLS[0] else {}
            self.measure(checks, f"{collective}, {ranks} ranks, {transport}",
                         ["ANELLO_TRANSPORT=" + transport, found[0], "-np", ranks, found[1], "--collective", collective,
                          *self.sizes()], within(bounds))
        if found:
            self.measure(checks, "invariant allreduce, 2 ranks, shm",
                         ["ANELLO_INVARIANT=1", found[0], "-np", 2, found[1], "--collective", "allreduce", *self.sizes()],
                         within(BOUNDS))
        if self.programs(checks, "device_calls_test"):
            output, code = self.run(checks, [*self.environment(), "ANELLO_INVARIANT=1", self.path("device_calls_test"),
                                             "[invariant]"])
            if code is not None:
                checks.put("invariant bits", *verdict_of_tests(output, code))

    def row_6(self, checks):
        self.tests(checks, "device_calls_test")

    def row_7(self, checks):
        """The calls' results and failures; then threads, whose kernels run at the same time."""
        self.tests(checks, "in_place_test")
        found = self.programs(checks, "anello-perf")
        copy_rate = self.copy_rate(checks) if found else None
        for ranks in (2, 4, 8) if found else ():
            most = "1M" if self.options.small else "256M"
            self.measure(checks, f"allreduce, {ranks} threads",
                         [found[0], "--ranks", "threads", "-t", ranks, "-b", most, "-e", most, "-n", "20"],
                         near(copy_rate, THREADS_SHARE, ranks))

    def copy_rate(self, checks):
        """Bytes per microsecond that a copy on the device reads and writes; None: it could not be measured."""
        roofline = type(checks)("2")
        self.device_row(roofline)
        for check in roofline:
            if check["figure"].endswith("TB/s") and "copy" in check["name"]:
                return float(check["figure"].split()[0]) * 1e6
        return None

    def row_8(self, checks):
        """A private MPS daemon, which ends with the row; the device's settings stay as they are."""
        found = self.programs(checks, "anellorun", "anello-perf")
        control = self.tool(checks, "nvidia-cuda-mps-control", "the driver")
        if found is None or control is None:
            return
        copy_rate = self.copy_rate(checks)
        with tempfile.TemporaryDirectory(prefix="mps") as folder:
            place = [f"CUDA_MPS_PIPE_DIRECTORY={folder}", f"CUDA_MPS_LOG_DIRECTORY={folder}"]
            output, code = self.run(checks, ["env", *place, control, "-d"])
            if code != 0:
                checks.put("MPS", "SKIP", note="the daemon does not start: " + last_line(output))
                return
            try:
                small, large = within(MPS_BOUNDS), near(copy_rate, MPS_SHARE, 2)
                self.measure(checks, "allreduce, 2 ranks, MPS", [*place, found[0], "-np", 2, found[1], *self.sizes()],
                             lambda size, time: (small if size < 16 * MiB else large)(size, time))
            finally:
                self.run(checks, ["sh", "-c", f"echo quit | env {' '.join(place)} {control}"])

    def row_9(self, checks):
        found = self.programs(checks, "device program", "kernels", "in_place_test")
        sanitizer = self.tool(checks, "compute-sanitizer", "the toolkit")
        if found is None or sanitizer is None:
            return
        device_program, images, in_place = found
        kernels = [device_program, "3", "--images", images.resolve(), "--small"]
        calls = [in_place, "processes on one device*"]
        for tool, name, program in (("memcheck", "kernels", kernels), ("memcheck", "calls", calls),
                                    ("racecheck", "calls", calls)):
            command = [sanitizer, "--tool", tool, "--error-exitcode", "9", "--target-processes", "all", *program]
            output, code = self.run(checks, [*self.environment(), *command])
            if code is not None:
                checks.put(f"{tool}, {name}", "PASS" if code == 0 else "FAIL", last_line(output), "no error")

    def row_10(self, checks):
        found = self.torch_programs(checks, "torch calls")
        if found is None:
            return
        runner, library, script = found
        command = [runner, "-np", 2, sys.executable, script, "--library", library,
                   *(["--small"] if self.options.small else [])]
        for allocator, setting in ALLOCATORS.items():
            self.torch_calls(checks, f"{allocator} allocator: ", ["PYTORCH_CUDA_ALLOC_CONF=" + setting, *command])
        with tempfile.TemporaryDirectory() as folder:
            self.torch_calls(checks, "", [*command, "--beside-gloo", pathlib.Path(folder) / "meeting"])

    def row_11(self, checks):
        found = self.torch_programs(checks, "torch group")
        if found is None:
            return
        runner, library, script = found
        folders = [script.parent, script.parent.parent.parent / "python"]  # carried, and in the sources
        package = next((folder for folder in folders if (folder / "anello").is_dir()), None)
        if package is None:
            checks.put("package anello", "FAIL", note="is neither carried nor in the sources")
            return
        self.torch_calls(checks, "", [f"ANELLO_LIBRARY={library}", runner, "-np", 2, sys.executable, "-B", script, "--package",
                                      package])

    def torch_programs(self, checks, script):
        """anellorun, the library and the script; None if something is missing, which is a row then."""
        found = self.programs(checks, "anellorun", "libanello", script)
        if found is None:
            return None
        if importlib.util.find_spec("torch") is None:
            checks.put("PyTorch", "SKIP", note="not installed")
            return None
        runner, library, place = found
        return runner, pathlib.Path(library).resolve(), place

    def torch_calls(self, checks, prefix, command):
        output, code = self.run(checks, [*self.environment(), *command])
        before = len(checks)
        checks.read(output)
        for check in checks[before:]:
            check["name"] = prefix + check["name"]
        if code not in (0, None):
            checks.put(prefix + "program", "FAIL", note=f"ended with {code}: {last_line(output)}")


def within(bounds):
    def judge(size, time):
        bound = bounds.get(size)
        return ("INFO", "") if bound is None else ("PASS" if time <= bound else "FAIL", f"<= {bound} us")
    return judge


def near(copy_rate, share, ranks):
    """The 2 P S bytes of an all-reduce at a share of the copy rate."""
    def judge(size, time):
        if copy_rate is None:
            return "INFO", ""
        reached = 2 * ranks * size / time / copy_rate
        return "PASS" if reached >= share else "FAIL", f"{reached:.2f} of a copy's rate, >= {share:.2f}"
    return judge

