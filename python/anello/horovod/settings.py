"""The HOROVOD_* variables that count here."""

import dataclasses
import os


@dataclasses.dataclass(frozen=True)
class Settings:
    """Values in seconds and bytes. Rank 0's fusion threshold and cache capacity count for all ranks."""

    cycle: float             # how long a submitted tensor waits for others that could travel with it
    fusion_threshold: int    # the most bytes of tensors that travel together
    cache_capacity: int      # names that ranks know by number
    stall_check: float       # 0: no check
    stall_shutdown: float    # 0: never
    timeline: str
    mark_cycles: bool
    dynamic_process_sets: bool
    elastic_timeout: float

    @classmethod
    def of_environment(cls):
        stalls = not _flag("HOROVOD_STALL_CHECK_DISABLE")
        return cls(cycle=_number("HOROVOD_CYCLE_TIME", 1.0) / 1000,
                   fusion_threshold=int(_number("HOROVOD_FUSION_THRESHOLD", 64 << 20)),
                   cache_capacity=int(_number("HOROVOD_CACHE_CAPACITY", 1024)),
                   stall_check=_number("HOROVOD_STALL_CHECK_TIME_SECONDS", 60) if stalls else 0,
                   stall_shutdown=_number("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", 0) if stalls else 0,
                   timeline=os.environ.get("HOROVOD_TIMELINE", ""),
                   mark_cycles=_flag("HOROVOD_TIMELINE_MARK_CYCLES"),
                   dynamic_process_sets=_flag("HOROVOD_DYNAMIC_PROCESS_SETS"),
                   elastic_timeout=_number("HOROVOD_ELASTIC_TIMEOUT", 600))

    def with_those_of_rank_0(self, fusion_threshold, cache_capacity):
        return dataclasses.replace(self, fusion_threshold=fusion_threshold, cache_capacity=cache_capacity)


def _number(name, default):
    text = os.environ.get(name, "")
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1 << 40:
        raise ValueError(f"{name} is {text!r}, which is no number from 0 on")
    return value


def _flag(name):
    return os.environ.get(name, "") not in ("", "0", "false", "False")
