#!/usr/bin/env python3
"""Compares a training step of hvd.DistributedOptimizer with one of torch's DistributedDataParallel, both over Anello,
in the same processes and in turn.

    bench/torch/horovod_step.py                  25 million parameters in 48 tensors, 2 ranks
    bench/torch/horovod_step.py --small 400      as many tensors of 1,000 elements instead

A step is zero_grad, forward, backward and step of SGD, one thread a rank. The ratio is the median over rounds of the
ratio within a round. Start it with a Python that has torch 2.13; the build is in build/.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WAYS = ("ddp", "hvd")


def rank_main(options):
    import torch
    import torch.distributed as dist

    import anello.horovod.torch as hvd

    torch.set_num_threads(1)
    dist.init_process_group("anello", init_method=f"file://{options.report}.store", rank=int(os.environ["RANK"]),
                            world_size=int(os.environ["WORLD_SIZE"]))
    hvd.init()

    def network():
        torch.manual_seed(1)
        if options.small:
            layers = [torch.nn.Linear(10, 90) if number % 2 == 0 else torch.nn.Linear(90, 10)
                      for number in range(options.small // 2)]
        else:
            layers = [torch.nn.Linear(options.width, options.width) for _ in range(options.layers)]
        return torch.nn.Sequential(*layers)

    models = {"ddp": torch.nn.parallel.DistributedDataParallel(network()), "hvd": network()}
    optimizers = {way: torch.optim.SGD(models[way].parameters(), lr=1e-4) for way in WAYS}
    optimizers["hvd"] = hvd.DistributedOptimizer(optimizers["hvd"], models["hvd"].named_parameters())
    torch.manual_seed(100 + hvd.rank())
    inputs = torch.randn(options.batch, 10 if options.small else options.width)

    def step(way):
        dist.barrier()
        start = time.perf_counter()
        optimizers[way].zero_grad()
        models[way](inputs).square().mean().backward()
        optimizers[way].step()
        return time.perf_counter() - start

    for way in WAYS * 3:
        step(way)
    rounds = []
    for number in range(options.rounds):
        order = WAYS if number % 2 == 0 else WAYS[::-1]
        rounds.append({way: step(way) for way in order})
    for one, other in zip(models["ddp"].parameters(), models["hvd"].parameters()):
        torch.testing.assert_close(one, other)
    pathlib.Path(f"{options.report}.{hvd.rank()}").write_text(json.dumps(
        {"rounds": rounds, "parameters": sum(each.numel() for each in models["hvd"].parameters()),
         "tensors": len(list(models["hvd"].parameters()))}))
    hvd.shutdown()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--batch", type=int, default=32, help="rows of a rank")
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--small", type=int, default=0, metavar="TENSORS")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--report", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.report:
        return rank_main(options)
    environment = {"ANELLO_LIBRARY": str(options.build / "lib/api/libanello.so.0"), **os.environ}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT / "python"), os.environ.get("PYTHONPATH")]))
    with tempfile.TemporaryDirectory() as folder:
        command = [str(options.build / "tools/anellorun"), "-np", str(options.ranks), sys.executable, "-W", "ignore",
                   __file__, *sys.argv[1:], "--report", f"{folder}/report"]
        subprocess.run(command, env=environment, check=True, timeout=900)
        reports = [json.loads(pathlib.Path(f"{folder}/report.{rank}").read_text()) for rank in range(options.ranks)]
    slowest = [{way: max(report["rounds"][number][way] for report in reports) for way in WAYS}
               for number in range(options.rounds)]
    medians = {way: statistics.median(each[way] for each in slowest) * 1000 for way in WAYS}
    ratio = statistics.median(each["hvd"] / each["ddp"] for each in slowest)
    what = f"{reports[0]['parameters']} parameters in {reports[0]['tensors']} tensors"
    print(f"{what}, {options.ranks} ranks, {options.rounds} rounds: torch's DDP {medians['ddp']:.1f} ms, "
          f"hvd.DistributedOptimizer {medians['hvd']:.1f} ms, ratio {ratio:.3f}")


if __name__ == "__main__":
    main()
