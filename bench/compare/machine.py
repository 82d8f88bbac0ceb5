"""Information on this machine: processors, memory, and the load of other programs."""

import os
import platform
import time


def processors():
    return len(os.sched_getaffinity(0))


def available_memory():
    with open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 1 << 40


def others_now():
    """The number of processors in use while this process only watches."""
    def used():
        with open("/proc/stat", encoding="ascii") as file:
            fields = [int(word) for word in file.readline().split()[1:9]]
        return fields[0] + fields[1] + fields[2] + fields[7]
    before, begin = used(), time.monotonic()
    time.sleep(0.2)
    return (used() - before) / os.sysconf("SC_CLK_TCK") / (time.monotonic() - begin)


def text():
    model = "unknown processor"
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    congestion = "/proc/sys/net/ipv4/tcp_congestion_control"
    control = open(congestion, encoding="ascii").read().strip() if os.path.exists(congestion) else "unknown"
    return f"{model}, {processors()} processors, Linux {platform.release()}, TCP congestion control {control}"
