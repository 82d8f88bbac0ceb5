"""The targets for Anello's time, relative to the best peer and to a ceiling of the same run."""

import dataclasses
import glob

KIB, MIB = 1 << 10, 1 << 20


@dataclasses.dataclass(frozen=True)
class Goal:
    peer: float = None  # ratio to the best peer's time
    ceilings: tuple = ()  # names, the first that was measured counts
    ceiling: float = None  # ratio to that time
    extra_us: float = 0  # plus this


def cores_share_cache():
    """Whether processors 0 and 1 share any cache."""
    lists = []
    for path in glob.glob("/sys/devices/system/cpu/cpu0/cache/index*/shared_cpu_list"):
        with open(path, encoding="ascii") as file:
            lists.append(file.read().strip())
    return not lists or any(text not in ("0",) for text in lists)


def goal(operation, ranks, transport, own, size, dirty, processors):
    """own: "Anello" or "Anello mapped"."""
    if operation != "allreduce":
        return Goal(0.85) if ranks in (2, 4) and size <= 64 * MIB else Goal()
    mapped = own == "Anello mapped"
    if transport == "tcp":
        return _tcp(ranks, size, processors)
    if ranks == 2:
        return _two_mapped(size, dirty) if mapped else _two_malloced(size)
    if ranks in (4, 8) and processors == 2:
        if size <= 64 * KIB:
            return Goal(peer=0.7)
        if size <= 256 * MIB:
            return Goal(peer=0.3, ceilings=("copy",), ceiling=1.5) if mapped else Goal(peer=0.8)
    return Goal()


def _two_mapped(size, dirty):
    if size <= KIB:
        return Goal(0.6, ("private",), 1.2, 0.06)
    if size <= 64 * KIB:
        return Goal(0.5, ("direct",), 1.3)
    if size <= MIB:
        return Goal(0.3 if cores_share_cache() or not dirty else 0.85, ("direct",), 1.3)
    return Goal(0.3 if size < 16 * MIB else 0.6, ("direct",), 1.25)


def _two_malloced(size):
    if size <= KIB:
        return Goal(0.7, ("private",), 1.2, 0.06)
    return Goal(0.8 if size <= 64 * MIB else 1.0, ("private",), 1.2)


def _tcp(ranks, size, processors):
    if ranks in (4, 8) and processors == 2:
        return Goal(0.75 if size <= 64 * MIB else None, ("duplex (reno)",))  # the ceiling is shown, without a target
    if ranks != 2:
        return Goal()
    # Anello chooses reno between addresses of one host, if allowed.
    if size <= 64 * KIB:
        return Goal(0.75, ("one way (reno)", "one way"), 1.3) if size <= 8 else Goal(0.75)
    return Goal(0.75 if size <= 4 * MIB else 0.6, ("duplex (reno)", "duplex"), 1.15 if size <= 4 * MIB else 1.25)
