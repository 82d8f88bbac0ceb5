"""The settings of the libraries that are compared: how each runs best over each transport.

Every setting below was tried on this benchmark; README.md lists the versions and the findings. A library may have
several settings, because none is best at all sizes; the table reports the best of them at each size, as a patient user
would configure it. All ranks are pinned by the loop itself, rank r to processor r modulo their number, so launchers do
not bind. """

import dataclasses


@dataclasses.dataclass(frozen=True)
class Setting:
    library: str
    name: str  # unique within library and transport
    transport: str  # "shm" or "tcp"
    environment: tuple = ()  # (name, value) pairs
    arguments: tuple = ()  # arguments of the launcher
    loop: tuple = ()  # of the loop
    smallest: int = 0  # sizes outside these bounds, in bytes, are not measured: others are known to be better
    largest: int = 1 << 62
    least_ranks: int = 2
    most_ranks: int = 64  # more ranks than this are left out, because they are known to be very slow
    quick: bool = True  # part of --quick; README.md lists those that are not

    @property
    def key(self):
        return f"{self.library}/{self.name}/{self.transport}"

    def takes(self, size, ranks):
        return self.smallest <= size <= self.largest and self.least_ranks <= ranks <= self.most_ranks


KIB = 1024
MIB = 1024 * KIB

# Requests of 32 MiB and more then stay on the heap, and are not mapped and faulted in again at each call. Open MPI and
# MPICH allocate scratch per call.
KEEP_SCRATCH = (("MALLOC_MMAP_THRESHOLD_", "4294967296"), ("MALLOC_TRIM_THRESHOLD_", "4294967296"),
                ("MALLOC_TOP_PAD_", "16777216"))


def mca(**values):
    words = []
    for name, value in values.items():
        words += ["--mca", name, str(value)]
    return tuple(words)


# Without this, Open MPI refuses UCX on machines without its preferred adapters.
UCX = mca(pml="ucx", opal_common_ucx_tls="any", opal_common_ucx_devices="any")

UCX_SHM = (("UCX_TLS", "self,sysv,posix,cma"),)
UCX_TCP = (("UCX_TLS", "self,tcp"), ("UCX_NET_DEVICES", "lo"))
NO_SHM = (("MPIR_CVAR_NOLOCAL", "1"),)  # MPICH then treats ranks of one host as remote, so everything goes through UCX.
VADER = mca(pml="ob1", btl="self,vader")
BTL_TCP = mca(pml="ob1", btl="self,tcp", btl_tcp_if_include="lo")
# UCX 1.20 finds no path between ranks over "lo"; packets to an address of this host do not leave it either.
UCX_TCP_ANY = (("UCX_TLS", "self,tcp"),)
SM = mca(pml="ob1", btl="self,sm")
OFI_TCP = (("FI_PROVIDER", "tcp"), ("FI_TCP_IFACE", "lo"))
# Its worker thread would share the rank's processor; libraries.py adds a worker if ranks share processors anyway.
ONECCL = (("CCL_ATL_TRANSPORT", "ofi"), ("CCL_WORKER_OFFLOAD", "0"), ("CCL_LOG_LEVEL", "error"))
RELEASE_GATHER = (("MPIR_CVAR_ALLREDUCE_POSIX_INTRA_ALGORITHM", "release_gather"),
                  ("MPIR_CVAR_COLL_SHM_LIMIT_PER_NODE", "65536"), ("MPIR_CVAR_COLLECTIVE_FALLBACK", "silent"))



def ceiling(name, way, transport="shm", most_ranks=2, **rest):
    # Rewriting a buffer does not affect ceilings that only move bytes; their figure counts for both.
    variants = () if name in ("private", "direct") else ("--variants", "untouched")
    return Setting(name, way, transport, loop=("--setting", way, *variants), most_ranks=most_ranks, **rest)


SETTINGS = [
    Setting("Anello", "default", "shm", (("ANELLO_TRANSPORT", "shm"),)),
    Setting("Anello", "default", "tcp", (("ANELLO_TRANSPORT", "tcp"),)),
    Setting("Anello mapped", "anello_mem_alloc", "shm", (("ANELLO_TRANSPORT", "shm"),), loop=("--setting", "mapped")),
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
    # Polling in the calling thread is Gloo's fastest setting for small messages; with large ones it hung. Up to 64 KiB
    # it worked.
    Setting("Gloo", "halving_doubling+sync", "tcp", loop=("--setting", "halving_doubling+sync"), largest=64 * KIB,
            most_ranks=2),
    Setting("Open MPI 5", "sm", "shm", KEEP_SCRATCH, SM),
    Setting("Open MPI 5", "sm, coll sm", "shm", KEEP_SCRATCH, SM + mca(coll_sm_priority=90), largest=64 * KIB, quick=False),
    Setting("Open MPI 5", "sm, no single copy", "shm", KEEP_SCRATCH, SM + mca(smsc="^cma"), largest=4 * MIB, quick=False),
    Setting("Open MPI 5", "ucx", "shm", KEEP_SCRATCH + UCX_SHM, UCX),
    Setting("MPICH 5", "posix", "shm", KEEP_SCRATCH + UCX_SHM),
    Setting("MPICH 5", "release-gather", "shm", KEEP_SCRATCH + RELEASE_GATHER, largest=64 * MIB, most_ranks=2),
    Setting("MPICH 5", "ucx", "shm", KEEP_SCRATCH + UCX_SHM + NO_SHM, quick=False),
    Setting("Intel MPI", "shm", "shm", KEEP_SCRATCH + (("I_MPI_FABRICS", "shm"),)),
    Setting("Intel MPI", "shm, no frames", "shm", KEEP_SCRATCH + (("I_MPI_FABRICS", "shm"),
                                                                   ("I_MPI_SHM_FRAME_THRESHOLD", "-1"))),
    Setting("Intel MPI", "shm, heap shared", "shm", KEEP_SCRATCH + (("I_MPI_FABRICS", "shm"), ("I_MPI_SHM_HEAP", "1")),
            smallest=64 * KIB, quick=False),
    Setting("oneCCL", "ofi", "shm", ONECCL + (("CCL_ATL_SHM", "1"),)),
    Setting("oneCCL", "ofi, nreduce", "shm", ONECCL + (("CCL_ATL_SHM", "1"), ("CCL_ALLREDUCE", "nreduce")), quick=False),
    Setting("Open MPI 5", "tcp", "tcp", KEEP_SCRATCH, BTL_TCP),
    Setting("Open MPI 5", "ucx", "tcp", KEEP_SCRATCH + UCX_TCP_ANY, UCX, quick=False),
    Setting("MPICH 5", "ofi", "tcp", KEEP_SCRATCH + NO_SHM + OFI_TCP + (("MPIR_CVAR_CH4_NETMOD", "ofi"),)),
    Setting("MPICH 5", "ucx", "tcp", KEEP_SCRATCH + NO_SHM + UCX_TCP_ANY, quick=False),
    # Without the last variable, small calls use shared memory with any fabric.
    Setting("Intel MPI", "ofi", "tcp", KEEP_SCRATCH + OFI_TCP + (("I_MPI_FABRICS", "ofi"),
                                                                 ("I_MPI_COLL_INTRANODE", "pt2pt"))),
    Setting("oneCCL", "ofi", "tcp", ONECCL + OFI_TCP),
    Setting("PyTorch gloo", "all_reduce", "tcp", (("GLOO_SOCKET_IFNAME", "lo"),)),
    ceiling("private", "oneline", largest=60),
    ceiling("private", "oneshot", largest=MIB),
    ceiling("private", "staged-16", smallest=16 * KIB, largest=4 * MIB),
    ceiling("private", "staged-64", smallest=64 * KIB),
    ceiling("private", "staged-256", smallest=MIB),
    ceiling("private", "attach", smallest=64 * KIB),
    ceiling("direct", "direct"),
    ceiling("line", "line", largest=KIB),
    ceiling("copy", "copy", smallest=256 * KIB, most_ranks=64),
    ceiling("one way", "one-way/system", "tcp", largest=64 * KIB),
    ceiling("one way (reno)", "one-way/reno", "tcp", largest=64 * KIB),
    ceiling("duplex", "duplex/system:64", "tcp", smallest=256 * KIB, quick=False),
    ceiling("duplex", "duplex/system:64:4096", "tcp", smallest=256 * KIB),
    ceiling("duplex", "duplex/system:256", "tcp", smallest=256 * KIB),
    ceiling("duplex (reno)", "duplex/reno", "tcp", largest=64 * KIB),
    ceiling("duplex (reno)", "duplex/reno:256", "tcp", smallest=256 * KIB, most_ranks=8),
    ceiling("duplex (reno)", "within/reno:256", "tcp", smallest=256 * KIB, least_ranks=4, most_ranks=8),
    ceiling("duplex (reno)", "duplex/reno:1024", "tcp", smallest=256 * KIB, most_ranks=8),
]

# Between hosts, for link.py, which adds the address of the network.
LINK_SETTINGS = [
    Setting("Anello", "default", "tcp", (("ANELLO_TRANSPORT", "tcp"),)),
    Setting("Open MPI", "tcp", "tcp", KEEP_SCRATCH, mca(pml="ob1", btl="self,tcp")),
    *(Setting("Gloo", name, "tcp", loop=("--setting", name)) for name in ("ring", "bcube", "ring_chunked", "halving_doubling")),
]
