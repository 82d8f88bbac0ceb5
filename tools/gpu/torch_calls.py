#!/usr/bin/env python3
"""One rank of gpu-verify's row 10: calls with PyTorch's tensors on a GPU, from its allocator as PYTORCH_CUDA_ALLOC_CONF
sets it, in its streams and graphs; with --beside-gloo, times beside torch.distributed over gloo. Rank 0 prints."""

import argparse
import ctypes
import json
import os
import statistics
import tempfile
import time

import torch

KIB, MIB = 1 << 10, 1 << 20
FLOAT32, SUM = 0, 0
BESIDE_GLOO = 0.5  # the allowed ratio to gloo's time


class Rank:
    def __init__(self, library, number, ranks):
        self.calls = ctypes.CDLL(library)
        self.comm = ctypes.c_void_p()
        self.number, self.ranks = number, ranks
        self.calls.anello_last_error.restype = ctypes.c_char_p
        self.must(self.calls.anello_comm_create(None, ctypes.byref(self.comm)))

    def must(self, code):
        if code != 0:
            raise RuntimeError(f"error {code}: {self.calls.anello_last_error(self.comm).decode()}")

    def allreduce(self, tensor):
        where = ctypes.c_void_p(tensor.data_ptr())
        self.must(self.calls.anello_allreduce(where, where, ctypes.c_size_t(tensor.numel()), FLOAT32, SUM, self.comm))

    def enqueue(self, tensor):
        where, stream = ctypes.c_void_p(tensor.data_ptr()), ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self.must(self.calls.anello_allreduce_on(where, where, ctypes.c_size_t(tensor.numel()), FLOAT32, SUM, self.comm,
                                                 stream))

    def expected(self, numbers):
        return sum(self.values(numbers, rank) for rank in range(self.ranks))

    def values(self, numbers, rank=None):
        return (numbers % 1021 + 17 * (self.number if rank is None else rank)).float()

    def put(self, name, right, figure="", bound="", note=""):
        """PASS if the step was right on all ranks; `right` may be None: a figure alone."""
        wrong = torch.tensor([0 if right or right is None else 1], dtype=torch.float32)
        self.allreduce(wrong)
        if self.number == 0:
            verdict = "FAIL" if wrong.item() else "INFO" if right is None else "PASS"
            row = {"name": name, "verdict": verdict, "figure": figure, "bound": bound, "note": note}
            print(json.dumps(row), flush=True)


def sizes_of(options):
    return (KIB, 64 * KIB, MIB) if options.small else (KIB, 64 * KIB, MIB, 16 * MIB, 256 * MIB)


def check_calls(rank, options):
    """Blocking calls, also on the inside of an allocation; a stream; a graph that is replayed."""
    for size in sizes_of(options):
        numbers = torch.arange(size // 4, device="cuda")
        expected = rank.expected(numbers)
        whole = torch.empty(size // 4 + 64, device="cuda")
        for first in (0, 64):
            part = whole[first:first + size // 4]
            part.copy_(rank.values(numbers))
            rank.allreduce(part)
            rank.put(f"{size} B from element {first}", torch.equal(part, expected))
        with torch.cuda.stream(torch.cuda.Stream()):
            part = torch.empty(size // 4, device="cuda")
            part.copy_(rank.values(numbers))
            rank.enqueue(part)
            part += 1
            torch.cuda.current_stream().synchronize()
            rank.put(f"{size} B in a stream", torch.equal(part, expected + 1))
        check_graph(rank, numbers, expected)


def check_graph(rank, numbers, expected):
    source, part = rank.values(numbers), torch.empty(numbers.numel(), device="cuda")
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        rank.enqueue(torch.zeros_like(part))  # the first call of a size allocates
        stream.synchronize()
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="relaxed"):
            part.copy_(source)
            rank.enqueue(part)
            part += 2
        right = True
        for _ in range(3):
            graph.replay()
            stream.synchronize()
            right = right and torch.equal(part, expected + 2)
    rank.put(f"{4 * numbers.numel()} B in a graph", right)


def median_us(work, rounds):
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(1e6 * (time.perf_counter() - begin))
    return statistics.median(times)


def beside_gloo(rank, options):
    import torch.distributed as dist
    dist.init_process_group("gloo", init_method="file://" + options.meeting, rank=rank.number, world_size=rank.ranks)
    for size in sizes_of(options):
        tensor = torch.ones(size // 4, device="cuda")
        rounds = 5 if size >= 16 * MIB else 20
        stream = torch.cuda.Stream()

        def enqueued():
            with torch.cuda.stream(stream):
                rank.enqueue(tensor)
        ways = {"anello": lambda: rank.allreduce(tensor), "in a stream": enqueued,
                "gloo": lambda: dist.all_reduce(tensor)}
        times = {way: [] for way in ways}
        for turn in range(4):
            for way, work in ways.items():
                tensor.fill_(0)
                torch.cuda.synchronize()
                figure = median_us(work, rounds)
                if turn > 0:
                    times[way].append(figure)
        gloo = statistics.median(times["gloo"])
        for way in ("anello", "in a stream"):
            ours = statistics.median(times[way])
            rank.put(f"{size} B, {way}, beside gloo", None if options.small else ours <= BESIDE_GLOO * gloo,
                     f"{ours / gloo:.3f} of its time", f"<= {BESIDE_GLOO}", f"{ours:.4g} us, {gloo:.4g} us")
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", required=True)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--beside-gloo", dest="meeting", metavar="FILE", help="gloo's ranks meet over this file")
    options = parser.parse_args()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    torch.zeros(1, device="cuda")  # makes the context
    rank = Rank(options.library, int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    (beside_gloo if options.meeting else check_calls)(rank, options)


if __name__ == "__main__":
    main()
