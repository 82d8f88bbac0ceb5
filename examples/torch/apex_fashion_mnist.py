#!/usr/bin/env python3
"""Trains a small network on Fashion-MNIST with the names of NVIDIA Apex, whose import lines are as they were.

    python apex_fashion_mnist.py                                            one process
    anellorun -np 2 python apex_fashion_mnist.py --opt-level O2 --sync-bn   two ranks; torchrun likewise
    python -m apex.parallel.multiproc --world-size 2 apex_fashion_mnist.py  two ranks, by Apex's launcher

The packages anello and anello-apex must be installed (pip install ./python ./python/anello-apex in a clone), and the
data set too (Debian: dataset-fashion-mnist). """

import argparse
import json
import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist
from apex import amp
from apex.parallel import LARC, DistributedDataParallel as DDP, convert_syncbn_model
from torch import nn
from torch.utils.data import DistributedSampler

from fashion_mnist import QUICK_IMAGES, digest, evaluate, read_set


def network_of(options):
    torch.manual_seed(options.seed)
    network = nn.Sequential(nn.Linear(784, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 64), nn.BatchNorm1d(64),
                            nn.ReLU(), nn.Linear(64, 10))
    return convert_syncbn_model(network) if options.sync_bn else network


def train_epoch(model, optimizer, images, labels, order, batch, clip):
    """Returns the sum of the batches' losses, and their number."""
    model.train()
    losses = torch.zeros(2, dtype=torch.float64)
    for chosen in order.split(batch):
        loss = nn.functional.cross_entropy(model(images[chosen]), labels[chosen])
        optimizer.zero_grad()
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(amp.master_params(optimizer), clip)
        optimizer.step()
        losses += torch.tensor([loss.item(), 1])
    return losses


def train(options):
    rank, size = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    if options.batch % size:
        sys.exit(f"a batch of {options.batch} images does not divide evenly into {size} ranks")
    images, labels = read_set(options.data, "train")
    test_images, test_labels = read_set(options.data, "t10k")
    if options.quick:
        images, labels = images[:QUICK_IMAGES], labels[:QUICK_IMAGES]
    network = network_of(options)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    if options.larc:
        optimizer = LARC(optimizer)
    network, optimizer = amp.initialize(network, optimizer, opt_level=options.opt_level,
                                        keep_batchnorm_fp32=options.keep_batchnorm_fp32, loss_scale=options.loss_scale)
    model = DDP(network, delay_allreduce=options.delay_allreduce) if size > 1 else network
    first = 0
    if options.resume:
        saved = torch.load(options.resume, weights_only=True)
        network.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        amp.load_state_dict(saved["amp"])
        first = saved["epoch"]
    sampler = DistributedSampler(range(len(images)), size, rank, seed=options.seed, drop_last=True)
    report = {"ranks": size, "opt_level": options.opt_level, "epochs": []}
    for epoch in range(first, options.epochs):
        sampler.set_epoch(epoch)
        start = time.perf_counter()
        losses = train_epoch(model, optimizer, images, labels, torch.tensor(list(sampler)), options.batch // size,
                             options.clip)
        seconds = time.perf_counter() - start
        if size > 1:
            dist.all_reduce(losses)
        network.eval()
        test_loss, accuracy = evaluate(network, test_images, test_labels, rank, size)
        loss = (losses[0] / losses[1]).item()
        report["epochs"].append({"loss": loss, "test_loss": test_loss, "accuracy": accuracy})
        if rank == 0:
            print(f"epoch {epoch + 1}/{options.epochs}  loss {loss:.4f}  test loss {test_loss:.4f}  accuracy "
                  f"{100 * accuracy:.2f} %  {len(images) / seconds:.0f} images/s", flush=True)
        if rank == 0 and options.checkpoint:
            torch.save({"model": network.state_dict(), "optimizer": optimizer.state_dict(), "amp": amp.state_dict(),
                        "epoch": epoch + 1}, options.checkpoint)
    finish(options, report, network, rank, size)


def finish(options, report, network, rank, size):
    """Compares the ranks' parameters and writes the report."""
    mine = digest(network)
    digests = mine.repeat(size, 1)
    if size > 1:
        dist.all_gather_into_tensor(digests, mine)
    report["digest"] = bytes(mine.tolist()).hex()
    report["equal"] = bool((digests == mine).all())
    if rank == 0:
        print(f"parameters {'equal' if report['equal'] else 'DIFFER'} on {size} {'rank' if size == 1 else 'ranks'}")
        if options.json:
            pathlib.Path(options.json).write_text(json.dumps(report, indent=2) + "\n")
    if not report["equal"]:
        sys.exit(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--opt-level", default="O1", help="O0, O1, O2 or O3")
    parser.add_argument("--keep-batchnorm-fp32", help="True or False instead of the level's own")
    parser.add_argument("--loss-scale", help="a number, or dynamic, instead of the level's own")
    parser.add_argument("--sync-bn", action="store_true", help="batch norm over the batches of all ranks")
    parser.add_argument("--larc", action="store_true", help="a rate for each parameter")
    parser.add_argument("--delay-allreduce", action="store_true", help="send gradients after the backward pass")
    parser.add_argument("--clip", type=float, default=0, help="largest norm of the gradients; 0: any")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=200, help="images of one update, over all ranks")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--checkpoint", help="file to which rank 0 writes the state after each epoch")
    parser.add_argument("--resume", help="such a file, from which training goes on")
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--json", help="file to which rank 0 writes figures")
    parser.add_argument("--quick", action="store_true", help=f"only {QUICK_IMAGES} images")
    parser.add_argument("--world-size", type=int, default=1, help="set by apex.parallel.multiproc")
    parser.add_argument("--rank", type=int, default=0, help="set by apex.parallel.multiproc")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if "WORLD_SIZE" in os.environ:
        dist.init_process_group(backend="anello", init_method="env://")
    train(options)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
