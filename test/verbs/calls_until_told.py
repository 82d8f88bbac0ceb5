"""A rank of a job that sums 256 KiB again and again, verifies each sum, and ends at the call after FILE is there.

Arguments: FILE. Rank 0 looks for it, and the sum itself tells the others, so that all end after the same call.
"""

import array
import os
import sys

import anello

COUNT = 65536

with anello.Communicator.create() as comm:
    mine = array.array("f", [comm.rank + 1.0]) * COUNT
    total = array.array("f", [comm.size * (comm.size + 1) / 2.0]) * COUNT
    result = array.array("f", bytes(4 * COUNT))
    calls, last = 0, False
    while not last:
        mine[0] = comm.rank == 0 and os.path.exists(sys.argv[1])
        comm.allreduce(mine, out=result)
        last = result[0] != 0
        total[0] = result[0]
        calls += 1
        if result != total:
            sys.exit(f"rank {comm.rank}: call {calls} has a wrong sum")
        if calls == 1:
            print("first call has ended", flush=True)
    print(f"rank {comm.rank}: {calls} right sums", flush=True)
