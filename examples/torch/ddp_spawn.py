#!/usr/bin/env python3
"""DistributedDataParallel with ranks that the script itself starts. They meet at a TCP port of rank 0's host.

    python ddp_spawn.py --world-size 2
    python ddp_spawn.py --world-size 4 --ranks 2 --first-rank 0 --dist-url tcp://alpha:23456      on alpha, and on
    python ddp_spawn.py --world-size 4 --ranks 2 --first-rank 2 --dist-url tcp://alpha:23456      another host
"""

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

from fashion_mnist import parsed, parser_of, train


def rank(number, options):
    torch.set_num_threads(1)
    dist.init_process_group("anello", init_method=options.dist_url, world_size=options.world_size,
                            rank=options.first_rank + number)
    train(options, DistributedDataParallel)
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = parser_of(__doc__)
    parser.add_argument("--world-size", type=int, default=2, help="ranks in all")
    parser.add_argument("--ranks", type=int, help="ranks on this host; by default all")
    parser.add_argument("--first-rank", type=int, default=0, help="of this host")
    parser.add_argument("--dist-url", default="tcp://127.0.0.1:23456", help="tcp://HOST:PORT of rank 0")
    chosen = parsed(parser)
    mp.spawn(rank, (chosen,), nprocs=chosen.ranks or chosen.world_size)
