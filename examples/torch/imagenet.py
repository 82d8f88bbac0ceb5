#!/usr/bin/env python3
"""A trainer for ImageNet to copy: data parallel, with mixed precision, checkpoints, and a test by all ranks after every
epoch.

    torchrun --nproc-per-node 4 imagenet.py /data/imagenet --arch resnet50 --amp       folders train and val, one folder a class
    anellorun -np 2 python imagenet.py --dummy --arch resnet18                         made-up images, to see whether it runs
    anellorun -np 2 python imagenet.py --dummy --resume checkpoint.pt                  goes on after the last epoch that was saved

Folders of images need torchvision; all else needs torch alone. The ranks are on the CPU.
"""

import argparse
import json
import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Subset

from fashion_mnist import digest
from resnet import SHAPES, resnet


class DummyImages(Dataset):
    """Noise with a colour for each class, so that there is something to learn. An image depends on its number alone."""

    def __init__(self, images, classes, size, seed):
        self.images, self.classes, self.size, self.seed = images, classes, size, seed
        self.colours = torch.randn(classes, 3, 1, 1, generator=torch.Generator().manual_seed(1))

    def __len__(self):
        return self.images

    def __getitem__(self, number):
        chance = torch.Generator().manual_seed(self.seed * self.images + number)
        return torch.randn(3, self.size, self.size, generator=chance) + self.colours[number % self.classes], number % self.classes


def data_sets(options):
    if options.dummy:
        return (DummyImages(options.dummy_images, options.classes, options.image_size, 1),
                DummyImages(options.dummy_images // 4, options.classes, options.image_size, 2))
    try:
        from torchvision import datasets, transforms
    except ImportError:
        sys.exit("folders of images need torchvision; --dummy makes images up")
    size = options.image_size
    normal = [transforms.ToTensor(), transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
    training = transforms.Compose([transforms.RandomResizedCrop(size), transforms.RandomHorizontalFlip(), *normal])
    test = transforms.Compose([transforms.Resize(size * 8 // 7), transforms.CenterCrop(size), *normal])
    folder = pathlib.Path(options.data)
    return datasets.ImageFolder(folder / "train", training), datasets.ImageFolder(folder / "val", test)


class Meter:
    """Sums over all ranks: loss, correct at first, correct among five, images."""

    def __init__(self):
        self.sums = torch.zeros(4, dtype=torch.float64)

    def add(self, scores, labels, loss):
        best = scores.float().topk(min(5, scores.shape[1])).indices == labels.unsqueeze(1)
        self.sums += torch.tensor([loss.item() * len(labels), best[:, 0].sum(), best.sum(), len(labels)], dtype=torch.float64)

    def totals(self):
        dist.all_reduce(self.sums)
        loss, first, five, images = self.sums.tolist()
        return {"loss": loss / images, "top1": first / images, "top5": five / images, "images": round(images)}


def train(model, loader, optimizer, scheduler, epoch, options):
    model.train()
    meter, begun, images = Meter(), time.perf_counter(), 0
    for step, (pixels, labels) in enumerate(loader, 1):
        with torch.autocast("cpu", torch.bfloat16, enabled=options.amp):
            scores = model(pixels)
            loss = nn.functional.cross_entropy(scores, labels, label_smoothing=options.label_smoothing)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        scheduler.step()
        meter.add(scores.detach(), labels, loss)
        images += len(labels) * dist.get_world_size()
        if dist.get_rank() == 0 and (step % options.print_every == 0 or step == len(loader)):
            print(f"epoch {epoch}  {step}/{len(loader)}  loss {loss:.4f}  rate {scheduler.get_last_lr()[0]:.4f}  "
                  f"{images / (time.perf_counter() - begun):.1f} images/s", flush=True)
    return meter.totals()


@torch.no_grad()
def test(model, data, options):
    """Each rank looks at a part, no image twice. The network without its wrapper, because parts may be uneven."""
    model.eval()
    meter = Meter()
    mine = Subset(data, range(dist.get_rank(), len(data), dist.get_world_size()))
    for pixels, labels in DataLoader(mine, options.batch // dist.get_world_size(), num_workers=options.workers):
        with torch.autocast("cpu", torch.bfloat16, enabled=options.amp):
            scores = model.module(pixels)
        meter.add(scores, labels, nn.functional.cross_entropy(scores.float(), labels))
    return meter.totals()


def save(state, path):
    """Either the whole new file is there or the old one."""
    beside = path.with_name(path.name + ".new")
    torch.save(state, beside)
    os.replace(beside, path)


def run(options):
    rank, size = dist.get_rank(), dist.get_world_size()
    if options.batch % size:
        sys.exit(f"a batch of {options.batch} images does not divide evenly into {size} ranks")
    torch.manual_seed(options.seed)
    training, testing = data_sets(options)
    network = resnet(options.arch, options.classes, options.width)
    decayed = [each for each in network.parameters() if each.dim() > 1]
    others = [each for each in network.parameters() if each.dim() <= 1]
    optimizer = torch.optim.SGD([{"params": decayed}, {"params": others, "weight_decay": 0}], lr=options.learning_rate, momentum=0.9,
                                nesterov=True, weight_decay=options.weight_decay)
    sampler = DistributedSampler(training, size, rank, seed=options.seed, drop_last=True)
    loader = DataLoader(training, options.batch // size, sampler=sampler, num_workers=options.workers, drop_last=True)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, options.learning_rate, total_steps=options.epochs * len(loader) + 1,
                                                    pct_start=0.1, cycle_momentum=False)
    first, best = 1, 0.0
    if options.resume and options.resume.exists():
        saved = torch.load(options.resume, map_location="cpu", weights_only=True)
        network.load_state_dict(saved["network"])
        optimizer.load_state_dict(saved["optimizer"])
        scheduler.load_state_dict(saved["scheduler"])
        first, best = saved["epoch"] + 1, saved["best"]
    model = DistributedDataParallel(network, gradient_as_bucket_view=True)
    report = {"ranks": size, "first": first, "epochs": []}
    for epoch in range(first, min(options.epochs, options.until or options.epochs) + 1):
        sampler.set_epoch(epoch)
        trained, tested = train(model, loader, optimizer, scheduler, epoch, options), test(model, testing, options)
        report["epochs"].append({"train": trained, "test": tested})
        if rank == 0:
            best = max(best, tested["top1"])
            print(f"epoch {epoch}/{options.epochs}  loss {trained['loss']:.4f}  test loss {tested['loss']:.4f}  top 1 "
                  f"{100 * tested['top1']:.2f} %  top 5 {100 * tested['top5']:.2f} %  of {tested['images']} images  best "
                  f"{100 * best:.2f} %", flush=True)
            save({"network": network.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict(),
                  "epoch": epoch, "best": best}, options.checkpoint)
    mine = digest(network)
    digests = mine.repeat(size, 1)
    dist.all_gather_into_tensor(digests, mine)
    report["digest"], report["equal"] = bytes(mine.tolist()).hex(), bool((digests == mine).all())
    if rank == 0 and options.json:
        pathlib.Path(options.json).write_text(json.dumps(report, indent=2) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", help="folder with the folders train and val")
    parser.add_argument("--dummy", action="store_true", help="made-up images instead")
    parser.add_argument("--dummy-images", type=int, default=1024)
    parser.add_argument("--arch", choices=SHAPES, default="resnet50")
    parser.add_argument("--width", type=int, default=64, help="channels of the first layer")
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--epochs", type=int, default=90)
    parser.add_argument("--until", type=int, help="stop after this epoch, as if the job's time were over")
    parser.add_argument("--batch", type=int, default=256, help="images of one update, over all ranks")
    parser.add_argument("--learning-rate", type=float, default=0.1, help="the highest; rises from and falls to almost 0")
    parser.add_argument("--weight-decay", type=float, default=1e-4)
    parser.add_argument("--label-smoothing", type=float, default=0.1)
    parser.add_argument("--amp", action="store_true", help="compute in bfloat16 where that is enough")
    parser.add_argument("--workers", type=int, default=2, help="processes that load images, for each rank")
    parser.add_argument("--checkpoint", type=pathlib.Path, default="checkpoint.pt", help="written after each epoch")
    parser.add_argument("--resume", type=pathlib.Path, help="a checkpoint to go on from, if it is there")
    parser.add_argument("--print-every", type=int, default=10, help="steps")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", help="file to which rank 0 writes figures")
    options = parser.parse_args()
    if not options.dummy and not options.data:
        parser.error("give a folder of images, or --dummy")
    if "WORLD_SIZE" in os.environ:
        dist.init_process_group("anello")
    else:
        dist.init_process_group("anello", store=dist.HashStore(), rank=0, world_size=1)
    run(options)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
