#!/usr/bin/env python3
"""Model parallelism with torch.distributed.pipelining: each rank has some layers of one network (a stage), and
micro-batches follow one another through the stages. Trains on Fashion-MNIST.

    python pipeline.py                                              one process
    anellorun -np 2 python pipeline.py --schedule gpipe             two stages; all forward passes, then all backward
    torchrun --nproc-per-node 4 pipeline.py --schedule 1f1b         four stages; as soon as a backward pass can begin, it does

The weights end with the same bits on 1, 2 and 4 ranks, because the arithmetic is the same. The package anello must be
installed (pip install ./python in a clone), and the data set too (Debian: dataset-fashion-mnist).
"""

import json
import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.utils.data import RandomSampler

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "torch"))
from fashion_mnist import QUICK_IMAGES, digest, evaluate, parsed, parser_of, read_set  # noqa: E402

SCHEDULES = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}


def layers(seed):
    torch.manual_seed(seed)
    widths = [784, 128, 96, 64, 10]
    return nn.Sequential(*[nn.Sequential(nn.Linear(*pair), nn.ReLU() if pair[1] > 10 else nn.Identity())
                           for pair in zip(widths, widths[1:])])


class OneProcess:
    """The same arithmetic without stages."""

    def __init__(self, network, micro_batches):
        self.network, self.micro_batches = network, micro_batches

    def step(self, images, target, losses):
        for part, labels in zip(images.chunk(self.micro_batches), target.chunk(self.micro_batches)):
            losses.append(nn.functional.cross_entropy(self.network(part), labels))
            losses[-1].backward()
        for each in self.network.parameters():
            each.grad /= self.micro_batches


def train(options):
    rank, size = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    network = layers(options.seed)
    if size > len(network):
        sys.exit(f"{size} ranks, but {len(network)} layers")
    if options.batch % options.micro_batches:
        sys.exit(f"a batch of {options.batch} images does not divide evenly into {options.micro_batches} micro-batches")
    mine = network[len(network) * rank // size:len(network) * (rank + 1) // size]
    first, last = rank == 0, rank == size - 1
    if size > 1:
        stage = PipelineStage(mine, rank, size, torch.device("cpu"))
        schedule = SCHEDULES[options.schedule](stage, options.micro_batches, loss_fn=nn.functional.cross_entropy)
    else:
        schedule = OneProcess(network, options.micro_batches)
    optimizer = torch.optim.SGD(mine.parameters(), lr=0.1, momentum=0.9)
    images, labels = read_set(options.data, "train")
    if options.quick:
        images, labels = images[:QUICK_IMAGES], labels[:QUICK_IMAGES]
    order = RandomSampler(range(len(images)), generator=torch.Generator().manual_seed(options.seed))  # equal on all ranks
    report = {"ranks": size, "schedule": options.schedule, "epochs": []}
    for epoch in range(options.epochs):
        start, losses = time.perf_counter(), []
        for chosen in torch.tensor(list(order)).split(options.batch)[:len(images) // options.batch]:
            optimizer.zero_grad()
            inputs, of_parts = [images[chosen]] if first else [], []
            schedule.step(*inputs, **({"target": labels[chosen], "losses": of_parts} if last else {}))
            optimizer.step()
            losses += [each.detach() for each in of_parts]
        seconds = time.perf_counter() - start
        loss = torch.stack(losses).mean() if last else torch.zeros(())
        parts = [mine.state_dict()]
        if size > 1:
            dist.broadcast(loss, size - 1)
            parts = [None] * size
            dist.all_gather_object(parts, mine.state_dict())
        for number, part in enumerate(parts):
            network[len(network) * number // size:len(network) * (number + 1) // size].load_state_dict(part)
        if first:
            accuracy = evaluate(network, *read_set(options.data, "t10k"), 0, 1)[1]
            report["epochs"].append({"loss": loss.item(), "accuracy": accuracy})
            print(f"epoch {epoch + 1}/{options.epochs}  loss {loss:.4f}  accuracy {100 * accuracy:.2f} %  "
                  f"{len(images) / seconds:.0f} images/s", flush=True)
    if first:
        report["digest"] = bytes(digest(network).tolist()).hex()
        print(f"{size} {'stage' if size == 1 else 'stages'}, weights {report['digest'][:16]}")
        if options.json:
            pathlib.Path(options.json).write_text(json.dumps(report, indent=2) + "\n")


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--schedule", choices=SCHEDULES, default="1f1b")
    parser.add_argument("--micro-batches", type=int, default=8, help="parts of a batch; at least as many as there are ranks")
    options = parsed(parser)
    torch.set_num_threads(1)
    if "WORLD_SIZE" in os.environ:
        dist.init_process_group("anello")
    train(options)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
