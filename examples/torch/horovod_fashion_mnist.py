#!/usr/bin/env python3
"""Trains a small network on Fashion-MNIST, as a script for Horovod does.

    python horovod_fashion_mnist.py                       one process
    anellorun -np 2 python horovod_fashion_mnist.py       two ranks; horovodrun -np 2 .. with Horovod

The packages anello and anello-horovod must be installed (pip install ./python ./python/anello-horovod in a clone), and
the data set too (Debian: dataset-fashion-mnist).
"""

import argparse
import json
import pathlib

import horovod.torch as hvd
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

from fashion_mnist import QUICK_IMAGES, read_set


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=200, help="images of one update, over all ranks")
    parser.add_argument("--fp16-allreduce", action="store_true", help="send gradients as float16")
    parser.add_argument("--use-adasum", action="store_true")
    parser.add_argument("--gradient-predivide-factor", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--json", help="file to which rank 0 writes figures")
    parser.add_argument("--quick", action="store_true", help=f"one epoch over {QUICK_IMAGES} images")
    options = parser.parse_args()

    hvd.init()
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    images, labels = read_set(options.data, "train")
    if options.quick:
        options.epochs, images, labels = 1, images[:QUICK_IMAGES], labels[:QUICK_IMAGES]
    data = TensorDataset(images, labels)
    sampler = DistributedSampler(data, num_replicas=hvd.size(), rank=hvd.rank(), seed=options.seed, drop_last=True)
    loader = DataLoader(data, batch_size=options.batch // hvd.size(), sampler=sampler)

    network = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    hvd.broadcast_parameters(network.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    optimizer = hvd.DistributedOptimizer(
        optimizer, named_parameters=network.named_parameters(),
        compression=hvd.Compression.fp16 if options.fp16_allreduce else hvd.Compression.none,
        op=hvd.Adasum if options.use_adasum else hvd.Average,
        gradient_predivide_factor=options.gradient_predivide_factor)

    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        total = 0.0
        for chosen, expected in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(network(chosen), expected)
            loss.backward()
            optimizer.step()
            total += loss.item()
        loss = hvd.allreduce(torch.tensor(total / len(loader)), name="loss").item()
        accuracy = evaluate(network, options.data)
        if hvd.rank() == 0:
            print(f"epoch {epoch + 1}/{options.epochs}  loss {loss:.4f}  accuracy {100 * accuracy:.2f} %", flush=True)
    weights = torch.cat([each.detach().flatten() for each in network.parameters()])
    equal = bool((hvd.allgather(weights.unsqueeze(0)) == weights).all())
    if hvd.rank() == 0 and options.json:
        report = {"ranks": hvd.size(), "loss": loss, "accuracy": accuracy, "equal": equal}
        pathlib.Path(options.json).write_text(json.dumps(report) + "\n")


def evaluate(network, data):
    """The share of the test images, of which each rank looks at a part, that the network knows."""
    images, labels = read_set(data, "t10k")
    mine = slice(hvd.rank(), None, hvd.size())
    with torch.no_grad():
        right = (network(images[mine]).argmax(1) == labels[mine]).sum()
    return hvd.allreduce(right, name="right", op=hvd.Sum).item() / len(labels)


if __name__ == "__main__":
    main()
