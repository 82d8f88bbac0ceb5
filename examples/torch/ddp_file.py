#!/usr/bin/env python3
"""DistributedDataParallel with ranks that are started one by one. They meet at a file, which all their hosts see and
which is not there before; the last rank removes it.

    python ddp_file.py --init-file /shared/meeting --world-size 2 --rank 0 &
    python ddp_file.py --init-file /shared/meeting --world-size 2 --rank 1
"""

import pathlib

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from fashion_mnist import parsed, parser_of, train

parser = parser_of(__doc__)
parser.add_argument("--init-file", type=pathlib.Path, required=True)
parser.add_argument("--world-size", type=int, required=True)
parser.add_argument("--rank", type=int, required=True)
options = parsed(parser)
torch.set_num_threads(1)
dist.init_process_group("anello", init_method=options.init_file.absolute().as_uri(), world_size=options.world_size,
                        rank=options.rank)
train(options, DistributedDataParallel)
dist.destroy_process_group()
