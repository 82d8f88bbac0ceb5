#!/usr/bin/env python3
"""DistributedDataParallel in a script for torch.distributed.launch, the launcher before torchrun, which gives each rank
its number on its host as an option.

    python -m torch.distributed.launch --nproc-per-node 2 ddp_launch.py --backend anello
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from fashion_mnist import parsed, parser_of, train

parser = parser_of(__doc__)
# torch.distributed.launch wrote --local_rank until PyTorch 1.13, and writes --local-rank since.
parser.add_argument("--local_rank", "--local-rank", type=int, default=0)
parser.add_argument("--backend", default="anello", help="anello, or another one to compare with")
options = parsed(parser)
torch.set_num_threads(1)
device = torch.device("cpu")
if options.backend == "nccl":  # Anello's ranks are on the CPU
    torch.cuda.set_device(options.local_rank)
    device = torch.device("cuda", options.local_rank)
dist.init_process_group(backend=options.backend, init_method="env://")
train(options, lambda network: DistributedDataParallel(network.to(device)))
dist.destroy_process_group()
