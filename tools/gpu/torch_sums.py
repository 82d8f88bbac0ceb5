#!/usr/bin/env python3
"""The times of torch.add(a, b, out=c), for gpu-verify's row 4d: launched, and as one of 20 in a graph."""

import json
import statistics
import sys

import torch

KIB = 1024


def median_us(work, rounds=20):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = []
    for round_number in range(5 + rounds):
        begin.record()
        work()
        end.record()
        end.synchronize()
        if round_number >= 5:
            times.append(1e3 * begin.elapsed_time(end))
    return statistics.median(times)


def replayed_us(work, parts=20):
    graph = torch.cuda.CUDAGraph()
    work()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        for _ in range(parts):
            work()
    return median_us(graph.replay) / parts


def main():
    sizes = (1,) if "--small" in sys.argv else (1, 16, 64, 256, 1024)
    with torch.cuda.stream(torch.cuda.Stream()):
        for mebibytes in sizes:
            for name, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
                count = mebibytes * KIB * KIB // torch.finfo(dtype).bits * 8
                a, b, c = (1 + torch.rand(count, device="cuda", dtype=dtype) for _ in range(3))
                for how, measure in (("launched", median_us), ("replayed", replayed_us)):
                    figure = measure(lambda: torch.add(a, b, out=c))
                    print(json.dumps({"name": f"{name} {mebibytes} MiB {how}", "verdict": "INFO",
                                      "figure": f"{figure:.4g} us", "bound": "", "note": torch.__version__}), flush=True)


if __name__ == "__main__":
    main()
