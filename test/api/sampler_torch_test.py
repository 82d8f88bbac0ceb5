"""anello_sampler_indices against torch.utils.data.DistributedSampler itself, at random sizes, ranks, seeds and epochs.

  sampler_torch_test.py LIBRARY [PYTHON..]     the first of these interpreters that imports torch; else this one
"""

import ctypes
import os
import random
import subprocess
import sys

CASES = 300


class Sampler(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("samples", ctypes.c_int64), ("rank", ctypes.c_int), ("world_size", ctypes.c_int),
                ("shuffle", ctypes.c_int), ("drop_last", ctypes.c_int), ("seed", ctypes.c_uint64)]


def ours(library, case):
    samples, rank, ranks, shuffle, drop_last, seed, epoch = case
    sampler = Sampler(ctypes.sizeof(Sampler), samples, rank, ranks, shuffle, drop_last, seed)
    count = ctypes.c_size_t()
    assert library.anello_sampler_count(ctypes.byref(sampler), ctypes.byref(count)) == 0
    indices = (ctypes.c_int64 * max(1, count.value))()
    assert library.anello_sampler_indices(ctypes.byref(sampler), ctypes.c_uint64(epoch), indices) == 0
    return list(indices)[:count.value]


def theirs(distributed_sampler, case):
    samples, rank, ranks, shuffle, drop_last, seed, epoch = case
    sampler = distributed_sampler(range(samples), num_replicas=ranks, rank=rank, shuffle=bool(shuffle), seed=seed,
                                  drop_last=bool(drop_last))
    sampler.set_epoch(epoch)
    return list(sampler)


def main(library):
    try:
        import torch
        from torch.utils.data.distributed import DistributedSampler
    except ImportError:
        print("SKIPPED: no Python here can import torch")
        return 77
    loaded = ctypes.CDLL(library)
    seed = int.from_bytes(os.urandom(4), "little")
    draw = random.Random(seed)
    for number in range(CASES):
        ranks = draw.randint(1, 9)
        case = (draw.choice([1, 2, 3, 7, 10, 100, 999, 12345, 60000]), draw.randrange(ranks), ranks, draw.randrange(2), draw.randrange(2),
                draw.choice([0, 1, 42, 2**31, 2**32 - 1, 12345678901]), draw.choice([0, 1, 5, 100, 2**20]))
        if ours(loaded, case) != theirs(DistributedSampler, case):
            print(f"FAILED: {case} (case {number} of seed {seed}) differs from torch {torch.__version__}")
            return 1
    print(f"{CASES} shards as of torch {torch.__version__}")
    return 0


if __name__ == "__main__":
    for python in sys.argv[2:]:
        if os.path.exists(python) and subprocess.run([python, "-c", "import torch"], stderr=subprocess.DEVNULL, check=False).returncode == 0:
            sys.exit(subprocess.run([python, "-W", "ignore", __file__, sys.argv[1]], stderr=subprocess.DEVNULL, check=False).returncode)
    sys.exit(main(sys.argv[1]))
