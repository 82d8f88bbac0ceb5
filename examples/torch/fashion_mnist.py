#!/usr/bin/env python3
"""Trains a small network on Fashion-MNIST with torch.distributed over Anello, on as many ranks as it is started with.

    python fashion_mnist.py                            one process
    anellorun -np 2 python fashion_mnist.py            two ranks; torchrun --nproc-per-node 2 fashion_mnist.py likewise
    python fashion_mnist.py --spawn 2                  two ranks, started by torch.multiprocessing
    anellorun -np 2 python fashion_mnist.py --ddp anello      Anello's own DistributedDataParallel instead of torch's

The package anello must be installed (pip install ./python in a clone), and the data set too (Debian:
dataset-fashion-mnist). """

import argparse
import gzip
import hashlib
import json
import os
import pathlib
import struct
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DistributedSampler

QUICK_IMAGES = 12000


def read_idx(path):
    """The bytes of a gzipped IDX file, with its shape."""
    with gzip.open(path) as file:
        kind, dimensions = struct.unpack(">HBB", file.read(4))[1:]
        if kind != 8:
            sys.exit(f"{path}: holds no bytes")
        shape = struct.unpack(f">{dimensions}I", file.read(4 * dimensions))
        return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).reshape(shape)


def read_set(folder, name):
    pixels = read_idx(pathlib.Path(folder) / f"{name}-images-idx3-ubyte.gz")
    labels = read_idx(pathlib.Path(folder) / f"{name}-labels-idx1-ubyte.gz")
    return (pixels.flatten(1).float() / 255 - 0.286) / 0.353, labels.long()


def wrapped(network, options):
    if not dist.is_initialized():
        return network
    if options.ddp == "anello":
        import anello.torch

        return anello.torch.DistributedDataParallel(network, gradient_as_bucket_view=True, bucket_cap_mb=0.1)
    return nn.parallel.DistributedDataParallel(network, gradient_as_bucket_view=True)


def evaluate(network, images, labels, rank, size):
    """Mean loss and accuracy over all images. Each rank tests its share; shares and last batches may be uneven."""
    totals = torch.zeros(3, dtype=torch.float64)  # loss, correct, images
    with torch.no_grad():
        for chosen in torch.arange(rank, len(images), size).split(999):
            scores = network(images[chosen])
            totals[0] += nn.functional.cross_entropy(scores, labels[chosen], reduction="sum")
            totals[1] += (scores.argmax(1) == labels[chosen]).sum()
            totals[2] += len(chosen)
    if size > 1:
        dist.all_reduce(totals)
    return (totals[0] / totals[2]).item(), (totals[1] / totals[2]).item()


def digest(network):
    state = hashlib.sha256()
    for each in network.parameters():
        state.update(bytes(each.detach().contiguous().view(torch.uint8).flatten().tolist()))
    return torch.frombuffer(bytearray(state.digest()), dtype=torch.uint8)


def train(options, wrap=None):
    """wrap: makes the model of the network; by default DistributedDataParallel if there is a group. It is the
    model.module, or the model itself, that is tested."""
    rank, size = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    if options.batch % size:
        sys.exit(f"a batch of {options.batch} images does not divide evenly into {size} ranks")
    images, labels = read_set(options.data, "train")
    test_images, test_labels = read_set(options.data, "t10k")
    if options.quick:
        images, labels = images[:QUICK_IMAGES], labels[:QUICK_IMAGES]
    torch.manual_seed(options.seed)
    network = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))
    model = wrap(network) if wrap else wrapped(network, options)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    sampler = DistributedSampler(range(len(images)), size, rank, seed=options.seed, drop_last=True)
    report = {"ranks": size, "epochs": []}
    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        start, losses = time.perf_counter(), torch.zeros(2, dtype=torch.float64)
        for chosen in torch.tensor(list(sampler)).split(options.batch // size):
            optimizer.zero_grad(set_to_none=False)
            loss = nn.functional.cross_entropy(model(images[chosen]), labels[chosen])
            loss.backward()
            optimizer.step()
            losses += torch.tensor([loss.item(), 1])
        seconds = time.perf_counter() - start
        if size > 1:
            dist.all_reduce(losses)
        test_loss, accuracy = evaluate(network, test_images, test_labels, rank, size)
        report["epochs"].append({"loss": (losses[0] / losses[1]).item(), "test_loss": test_loss, "accuracy": accuracy})
        if rank == 0:
            print(f"epoch {epoch + 1}/{options.epochs}  loss {losses[0] / losses[1]:.4f}  test loss {test_loss:.4f}  accuracy "
                  f"{100 * accuracy:.2f} %  {len(images) / seconds:.0f} images/s", flush=True)
    # One rank computes this alone: the shares must add up to it.
    report["alone"] = evaluate(network, test_images, test_labels, 0, 1)
    mine = digest(network)
    digests = mine.repeat(size, 1)
    if size > 1:
        dist.all_gather_into_tensor(digests, mine)
    report["digest"] = bytes(mine.tolist()).hex()
    report["equal"] = bool((digests == mine).all())
    summary = model.summary() if hasattr(model, "summary") else None
    if rank == 0:
        if summary:
            print(summary)
        print(f"parameters {'equal' if report['equal'] else 'DIFFER'} on {size} {'rank' if size == 1 else 'ranks'}")
        if options.json:
            pathlib.Path(options.json).write_text(json.dumps(report, indent=2) + "\n")
    if not report["equal"]:
        sys.exit(1)


def spawned(rank, options, port):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(options.spawn), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    run(options)


def run(options):
    torch.set_num_threads(1)
    if "WORLD_SIZE" in os.environ:
        dist.init_process_group("anello")
    train(options)
    if dist.is_initialized():
        dist.destroy_process_group()


def parser_of(description):
    """The options of train."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=200, help="images of one update, over all ranks")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--json", help="file to which rank 0 writes figures")
    parser.add_argument("--quick", action="store_true", help=f"one epoch over {QUICK_IMAGES} images")
    return parser


def parsed(parser):
    options = parser.parse_args()
    if options.quick:
        options.epochs = 1
    return options


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--ddp", choices=("torch", "anello"), default="torch")
    parser.add_argument("--spawn", type=int, default=0, metavar="N", help="start N ranks of this program")
    options = parsed(parser)
    if not options.spawn:
        return run(options)
    import socket

    with socket.socket() as free:  # torch's store listens there
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(spawned, (options, port), nprocs=options.spawn)


if __name__ == "__main__":
    main()
