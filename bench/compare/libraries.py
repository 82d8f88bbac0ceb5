"""The compared libraries: their loops, and the command that starts each one."""

import dataclasses
import os
import shutil

import machine
import wheels

PEERS = wheels.PEERS


@dataclasses.dataclass(frozen=True)
class Library:
    program: str  # the loop: a Meson target, or "" for the wheel's loop
    launcher: str = ""  # "" if ranks are started without a launcher
    packages: str = ""  # the Debian packages of the loop and its launcher
    wheel: wheels.Wheel = None
    limit: bool = False  # a ceiling, not a library


LIBRARIES = {
    "Anello": Library("anello_loop", "anellorun"),
    "Anello mapped": Library("anello_loop", "anellorun"),
    "Open MPI": Library("openmpi_loop", "mpirun.openmpi", "libopenmpi-dev openmpi-bin"),
    "MPICH": Library("mpich_loop", "mpiexec.hydra", "libmpich-dev mpich"),
    "Gloo": Library("gloo_loop", packages="libgloo-dev"),
    "Open MPI 5": Library("", "mpirun", wheel=wheels.WHEELS["Open MPI 5"]),
    "MPICH 5": Library("", "mpiexec", wheel=wheels.WHEELS["MPICH 5"]),
    "Intel MPI": Library("", "mpiexec.hydra", wheel=wheels.WHEELS["Intel MPI"]),
    "oneCCL": Library("", wheel=wheels.WHEELS["oneCCL"]),
    "PyTorch gloo": Library("", wheel=wheels.WHEELS["PyTorch gloo"]),
    # These are not libraries: they show what the machine allows.
    "private": Library("ceilings", limit=True),
    "direct": Library("ceilings", limit=True),
    "line": Library("ceilings", limit=True),
    "copy": Library("ceilings", limit=True),
    "one way": Library("ceilings", limit=True),
    "one way (reno)": Library("ceilings", limit=True),
    "duplex": Library("ceilings", limit=True),
    "duplex (reno)": Library("ceilings", limit=True),
}
OWN = ("Anello", "Anello mapped")
COMPLETE = (*OWN, "Open MPI", "MPICH", "Open MPI 5", "MPICH 5", "Intel MPI")  # their loops support every operation
CEILINGS = tuple(name for name, library in LIBRARIES.items() if library.limit)
PEER_NAMES = tuple(name for name in LIBRARIES if name not in OWN + CEILINGS)


def launcher(name, build):
    """The path of the launcher; None if it is missing, "" if the library needs none."""
    library = LIBRARIES[name]
    if not library.launcher:
        return ""
    if library.wheel:
        path = os.path.join(wheels.root(library.wheel, build), "bin", library.launcher)
        return path if os.path.isfile(path) else None
    if name in OWN:
        for path in (os.path.join(build, "tools", library.launcher),
                     os.path.join(build, "tools", library.launcher, library.launcher)):
            if os.path.isfile(path):
                return path
        return None
    return shutil.which(library.launcher)


def loop_program(name, build):
    library = LIBRARIES[name]
    if library.wheel:
        path = wheels.program(library.wheel, build)
    else:
        path = os.path.join(build, "bench", "compare", library.program)
    return path if os.path.isfile(path) else None


def missing(name, build):
    """Why the library cannot run, or ""."""
    library = LIBRARIES[name]
    if library.wheel:
        why = wheels.compile_loop(library.wheel, build)
        if why:
            return why
    hint = f"apt-get install {library.packages}, then configure again" if library.packages else \
        "build it first: tools/quickstart, then ninja -C build"
    if loop_program(name, build) is None:
        return f"no {library.program} in {build}: {hint}"
    if launcher(name, build) is None:
        return f"no {library.launcher}: {hint}"
    return ""


def _mca(**values):
    return [word for name, value in values.items() for word in ("--mca", name, str(value))]


def _open_mpi(start, setting, ranks, program):
    passed = [word for name, _ in setting.environment for word in ("-x", name)]
    oversubscribed = int(ranks > machine.processors())
    if setting.library == "Open MPI":
        placement = ["--oversubscribe", *_mca(rmaps_base_inherit=1)]
    else:
        placement = ["--map-by", ":OVERSUBSCRIBE"]
    return [start, "--allow-run-as-root", "--bind-to", "none", *placement, *_mca(mpi_yield_when_idle=oversubscribed),
            *passed, *setting.arguments, "-np", str(ranks), *program]


def commands(setting, ranks, build, loop_arguments):
    """[(command, environment)], one per process to start."""
    name = setting.library
    library = LIBRARIES[name]
    program = [loop_program(name, build), *loop_arguments, "--transport", setting.transport, *setting.loop]
    start = launcher(name, build)
    environment = dict(os.environ)
    environment.update(dict(setting.environment))
    if name in OWN:
        return [([start, "-np", str(ranks), "--bind-to", "none", *setting.arguments, *program], environment)]
    if name.startswith("Open MPI"):
        return [(_open_mpi(start, setting, ranks, program), environment)]
    if name.startswith("MPICH"):
        if ranks > machine.processors():
            # Otherwise it spins through a time slice; with more polls between them, these short sleeps make it slower
            # again.
            environment.update(MPIR_CVAR_CH4_PROGRESS_THROTTLE="1", MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT="1")
        return [([start, "-bind-to", "none", *setting.arguments, "-n", str(ranks), *program], environment)]
    if library.wheel:
        folder = wheels.root(library.wheel, build)
        environment.update(FI_PROVIDER_PATH=os.path.join(folder, "lib"), I_MPI_ROOT=folder)
        if name == "Intel MPI":
            environment["I_MPI_PIN"] = "0"
            # Its shared memory spins through a time slice unless it knows that ranks share processors.
            environment["I_MPI_THREAD_YIELD"] = "2" if ranks > machine.processors() else "0"
            return [([start, *setting.arguments, "-n", str(ranks), *program], environment)]
        if name == "oneCCL" and ranks > machine.processors():
            # The calling thread never yields; the worker does so with this setting.
            environment.update(CCL_WORKER_OFFLOAD="1", CCL_YIELD="sched_yield")
        environment["LD_LIBRARY_PATH"] = os.path.join(folder, "lib")  # oneCCL loads libfabric by name
        if name == "PyTorch gloo":
            program = [wheels.python(library.wheel, build), os.path.join(PEERS, "torch_gloo_loop.py"), *program]
    each = []
    for rank in range(ranks):
        own = dict(environment, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks), CCL_PROCESS_LAUNCHER="none",
                   CCL_LOCAL_RANK=str(rank), CCL_LOCAL_SIZE=str(ranks))
        each.append((program, own))
    return each
