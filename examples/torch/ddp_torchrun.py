#!/usr/bin/env python3
"""DistributedDataParallel with ranks that a launcher starts. They find each other through the environment.

    torchrun --nproc-per-node 2 ddp_torchrun.py
    torchrun --nnodes 2 --node-rank 0 --master-addr alpha --nproc-per-node 2 ddp_torchrun.py       on two hosts
    anellorun -np 2 python ddp_torchrun.py
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from fashion_mnist import parsed, parser_of, train

options = parsed(parser_of(__doc__))
torch.set_num_threads(1)
dist.init_process_group("anello")  # "nccl" or "gloo" before; init_method="env://" is the default
train(options, DistributedDataParallel)
dist.destroy_process_group()
