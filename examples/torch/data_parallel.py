#!/usr/bin/env python3
"""DataParallel: one process, each of whose batches is cut into one part for each device.

    python data_parallel.py --devices cpu cpu              two threads
    python data_parallel.py --devices cuda:0 cuda:1        two GPUs
"""

import os

import torch
from anello.torch import DataParallel  # from torch.nn import DataParallel

from fashion_mnist import parsed, parser_of, train

parser = parser_of(__doc__)
parser.add_argument("--devices", nargs="+", default=["cpu", "cpu"])
options = parsed(parser)
torch.set_num_threads(max(1, (os.cpu_count() or 1) // len(options.devices)))
train(options, lambda network: DataParallel(network.to(options.devices[0]), options.devices))
