"""The libraries that are compared and their settings: how each is started over each transport.

Every setting below was tried on this benchmark (2 virtual processors, Linux 6.18, Debian 12: Open MPI 4.1.4, MPICH
4.0.2 with UCX 1.13.1, Gloo of May 2022); README.md has what was found. A library may have several settings, since
none is best at all sizes; the table reports the best of them at each size, as a patient user would configure it.
All ranks are pinned by the loop itself, rank r to processor r modulo their number, so launchers do not bind.
"""

import dataclasses
import os
import shutil


@dataclasses.dataclass(frozen=True)
class Setting:
    library: str
    name: str  # unique within library and transport
    transport: str  # "shm" or "tcp"
    environment: tuple = ()  # (name, value) pairs
    arguments: tuple = ()  # of the launcher
    loop: tuple = ()  # of the loop
    smallest: int = 0  # sizes outside these bounds, in bytes, are left to other settings: known not to be best
    largest: int = 1 << 62
    most_ranks: int = 64  # more ranks than this are left out: known to crawl
    quick: bool = True  # part of --quick

    @property
    def key(self):
        return f"{self.library}/{self.name}/{self.transport}"

    def takes(self, size, ranks):
        return self.smallest <= size <= self.largest and ranks <= self.most_ranks


# Programs, and the Debian packages that the loop and its launcher come from.
PROGRAMS = {
    "Anello": ("anello_loop", "anellorun", ""),
    "Open MPI": ("openmpi_loop", "mpirun.openmpi", "libopenmpi-dev openmpi-bin"),
    "MPICH": ("mpich_loop", "mpiexec.hydra", "libmpich-dev mpich"),
    "Gloo": ("gloo_loop", "", "libgloo-dev"),
}

KIB = 1024
MIB = 1024 * KIB

# Requests of 32 MiB and more then stay on the heap instead of being mapped, and faulted in, anew at each call. Open
# MPI and MPICH allocate scratch per call.
KEEP_SCRATCH = (("MALLOC_MMAP_THRESHOLD_", "4294967296"), ("MALLOC_TRIM_THRESHOLD_", "4294967296"),
                ("MALLOC_TOP_PAD_", "16777216"))


def mca(**values):
    words = []
    for name, value in values.items():
        words += ["--mca", name, str(value)]
    return tuple(words)


# Open MPI refuses UCX on machines without its favourite adapters unless told otherwise.
UCX = mca(pml="ucx", opal_common_ucx_tls="any", opal_common_ucx_devices="any")

UCX_SHM = (("UCX_TLS", "self,sysv,posix,cma"),)
UCX_TCP = (("UCX_TLS", "self,tcp"), ("UCX_NET_DEVICES", "lo"))
NO_SHM = (("MPIR_CVAR_NOLOCAL", "1"),)  # MPICH then treats ranks of one host as remote: all goes through UCX.
VADER = mca(pml="ob1", btl="self,vader")
BTL_TCP = mca(pml="ob1", btl="self,tcp", btl_tcp_if_include="lo")
RELEASE_GATHER = (("MPIR_CVAR_ALLREDUCE_POSIX_INTRA_ALGORITHM", "release_gather"),
                  ("MPIR_CVAR_COLL_SHM_LIMIT_PER_NODE", "65536"), ("MPIR_CVAR_COLLECTIVE_FALLBACK", "silent"))

SETTINGS = [
    Setting("Anello", "default", "shm", (("ANELLO_TRANSPORT", "shm"),)),
    Setting("Anello", "default", "tcp", (("ANELLO_TRANSPORT", "tcp"),)),
    Setting("Open MPI", "vader", "shm", (), VADER, largest=16 * MIB),
    Setting("Open MPI", "vader, kept scratch", "shm", KEEP_SCRATCH, VADER, smallest=4 * MIB),
    Setting("Open MPI", "ucx, kept scratch", "shm", KEEP_SCRATCH + UCX_SHM, UCX, quick=False),
    Setting("MPICH", "default", "shm", quick=False),
    Setting("MPICH", "release-gather", "shm", RELEASE_GATHER, largest=64 * MIB,
            most_ranks=2),
    Setting("MPICH", "posix, kept scratch", "shm", KEEP_SCRATCH + UCX_SHM, quick=False),
    Setting("MPICH", "ucx, kept scratch", "shm", KEEP_SCRATCH + UCX_SHM + NO_SHM),
    Setting("Open MPI", "tcp", "tcp", (), BTL_TCP, largest=16 * MIB),
    Setting("Open MPI", "tcp, kept scratch", "tcp", KEEP_SCRATCH, BTL_TCP, smallest=16 * MIB, quick=False),
    Setting("Open MPI", "ucx, kept scratch", "tcp", KEEP_SCRATCH + UCX_TCP, UCX),
    Setting("MPICH", "ucx, kept scratch", "tcp", KEEP_SCRATCH + UCX_TCP + NO_SHM),
    Setting("Gloo", "ring", "tcp", loop=("--setting", "ring"), quick=False),
    Setting("Gloo", "bcube", "tcp", loop=("--setting", "bcube"), quick=False),
    Setting("Gloo", "ring_chunked", "tcp", loop=("--setting", "ring_chunked"), smallest=4 * MIB),
    Setting("Gloo", "halving_doubling", "tcp", loop=("--setting", "halving_doubling")),
    # Polling in the calling thread is Gloo's fastest way for small messages; with large ones it hung. Up to 64 KiB it
    # was seen to work.
    Setting("Gloo", "halving_doubling+sync", "tcp", loop=("--setting", "halving_doubling+sync"), largest=64 * KIB,
            most_ranks=2),
]


def launcher(library, build):
    """The path of the launcher; None if it is missing, "" if the library needs none."""
    name = PROGRAMS[library][1]
    if not name:
        return ""
    if library == "Anello":
        for path in (os.path.join(build, "tools", name), os.path.join(build, "tools", name, name)):
            if os.path.isfile(path):
                return path
        return None
    return shutil.which(name)


def loop_program(library, build):
    path = os.path.join(build, "bench", "compare", PROGRAMS[library][0])
    return path if os.path.isfile(path) else None


def missing(library, build):
    """Why the library cannot be run, or "" where it can."""
    package = PROGRAMS[library][2]
    hint = f"apt-get install {package}, then configure again" if package else "build it first (tools/quickstart)"
    if loop_program(library, build) is None:
        return f"no {PROGRAMS[library][0]} in {build}: {hint}"
    if launcher(library, build) is None:
        return f"no {PROGRAMS[library][1]}: {hint}"
    return ""


def commands(setting, ranks, build, loop_arguments):
    """[(command, environment)], one per process to start."""
    program = [loop_program(setting.library, build), *loop_arguments, "--transport", setting.transport, *setting.loop]
    start = launcher(setting.library, build)
    environment = dict(os.environ)
    environment.update(dict(setting.environment))
    if setting.library == "Anello":
        return [([start, "-np", str(ranks), "--bind-to", "none", *setting.arguments, *program], environment)]
    if setting.library == "Open MPI":
        passed = [word for name, _ in setting.environment for word in ("-x", name)]
        oversubscribed = ranks > len(os.sched_getaffinity(0))
        common = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none",
                  *mca(mpi_yield_when_idle=int(oversubscribed), rmaps_base_inherit=1)]
        return [([start, *common, *passed, *setting.arguments, "-np", str(ranks), *program], environment)]
    if setting.library == "MPICH":
        return [([start, "-bind-to", "none", *setting.arguments, "-n", str(ranks), *program], environment)]
    each = []
    for rank in range(ranks):
        own = dict(environment, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks))
        each.append((program, own))
    return each
