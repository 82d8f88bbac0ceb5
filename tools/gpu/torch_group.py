#!/usr/bin/env python3
"""One rank of gpu-verify's row 11: torch.distributed over anello with tensors on a GPU. Every rank uses the same device
if there are fewer than ranks. Rank 0 prints a row of JSON per step."""

import argparse
import copy
import json
import os
import sys
import traceback

import torch
import torch.distributed as dist

N = 1 << 20


def values(rank):
    return (torch.arange(N, device="cuda") % 1021 + 17 * rank).float()


def put(name, right, note=""):
    """PASS if the step was right on all ranks."""
    wrong = torch.tensor([0 if right else 1])
    dist.all_reduce(wrong)
    if dist.get_rank() == 0:
        print(json.dumps({"name": name, "verdict": "FAIL" if wrong.item() else "PASS", "figure": "", "bound": "",
                          "note": note}), flush=True)


def collectives(rank, size, blocking):
    """(name, whether right) of each call, on what a kernel has just written."""
    inputs = [values(each) for each in range(size)]
    total, mine = sum(inputs), inputs[rank]

    def end(work):
        if not blocking:
            work.wait()

    later = {"async_op": not blocking}
    x = mine.clone()
    end(dist.all_reduce(x, **later))
    yield "all_reduce", torch.equal(x, total)
    x = mine.clone()
    torch.cuda._sleep(20_000_000)  # the call must wait for the kernel behind this
    x += 1
    end(dist.all_reduce(x, **later))
    x += 1
    yield "all_reduce between kernels", torch.equal(x, total + size + 1)
    whole = torch.empty(2 * N, device="cuda")
    whole[::2].copy_(mine)
    end(dist.all_reduce(whole[::2], **later))
    yield "all_reduce of every other element", torch.equal(whole[::2], total)
    x = mine.clone()
    end(dist.all_reduce(x, dist._make_nccl_premul_sum(0.5), **later))
    yield "all_reduce with a factor", torch.equal(x, total * 0.5)
    x = mine.clone()
    end(dist.broadcast(x, size - 1, **later))
    yield "broadcast", torch.equal(x, inputs[-1])
    whole = torch.empty(size * N, device="cuda")
    end(dist.all_gather_into_tensor(whole, mine, **later))
    yield "all_gather_into_tensor", torch.equal(whole, torch.cat(inputs))
    parts = [torch.empty(N, device="cuda") for _ in range(size)]
    end(dist.all_gather(parts, mine, **later))
    yield "all_gather", all(map(torch.equal, parts, inputs))
    x = torch.empty(N, device="cuda")
    end(dist.reduce_scatter_tensor(x, mine.repeat(size), **later))
    yield "reduce_scatter_tensor", torch.equal(x, total)
    x = torch.empty(N, device="cuda")
    end(dist.all_to_all_single(x, mine, **later))
    yield "all_to_all_single", torch.equal(x, torch.cat([each.chunk(size)[rank] for each in inputs]))


def messages(rank, size):
    following, before = (rank + 1) % size, (rank - 1) % size
    x = torch.empty(N, device="cuda")
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, values(rank), following), dist.P2POp(dist.irecv, x, before)]):
        work.wait()
    return torch.equal(x, values(before))


def graph(rank, size):
    x, source = torch.empty(N, device="cuda"), values(rank)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        dist.all_reduce(torch.zeros_like(x))  # the first call of a size allocates
        stream.synchronize()
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured, stream=stream, capture_error_mode="relaxed"):
            x.copy_(source)
            dist.all_reduce(x)
            x += 1
            dist.all_reduce(x, async_op=True).wait()
        right = True
        for _ in range(3):
            captured.replay()
            stream.synchronize()
            right = right and torch.equal(x, size * (sum(values(each) for each in range(size)) + 1))
    return right


def model_of(seed):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256)).cuda()


def steps(model, batches, rows):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in batches:
        optimizer.zero_grad()
        model(batch[rows]).square().mean().backward()
        optimizer.step()


def same_weights(model, alone):
    return all(torch.allclose(ours, theirs, rtol=1e-4, atol=1e-5) for ours, theirs in zip(model, alone, strict=True))


def ddp(rank, size):
    alone = model_of(3)
    model = torch.nn.parallel.DistributedDataParallel(copy.deepcopy(alone), device_ids=[torch.cuda.current_device()])
    torch.manual_seed(4)
    batches = [torch.randn(8 * size, 256, device="cuda") for _ in range(3)]
    steps(model, batches, slice(8 * rank, 8 * rank + 8))
    steps(alone, batches, slice(None))
    return same_weights(model.parameters(), alone.parameters())


def own_ddp(rank, size):
    """Also with gradients in views, and in bfloat16 on the wire."""
    from anello.torch import DistributedDataParallel

    torch.manual_seed(7)
    batches = [torch.randn(8 * size, 256, device="cuda") for _ in range(3)]
    alone = model_of(8)
    models = [DistributedDataParallel(copy.deepcopy(alone), bucket_cap_mb=0.1, **options)
              for options in ({}, {"gradient_as_bucket_view": True}, {"wire": torch.bfloat16, "error_feedback": True})]
    steps(alone, batches, slice(None))
    for model in models:
        steps(model, batches, slice(8 * rank, 8 * rank + 8))
    exact = all(same_weights(model.parameters(), alone.parameters()) for model in models[:2])
    near = all(torch.allclose(ours, theirs, rtol=1e-2, atol=1e-3)
               for ours, theirs in zip(models[2].parameters(), alone.parameters(), strict=True))
    return exact and near


def fsdp(rank, size):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    alone = model_of(5)
    model = copy.deepcopy(alone)
    fully_shard(model, mesh=init_device_mesh("cuda", (size,)))
    torch.manual_seed(6)
    batches = [torch.randn(8 * size, 256, device="cuda") for _ in range(3)]
    steps(model, batches, slice(8 * rank, 8 * rank + 8))
    steps(alone, batches, slice(None))
    return same_weights([parameter.full_tensor() for parameter in model.parameters()], alone.parameters())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--package", required=True, help="the folder that holds the package anello")
    options = parser.parse_args()
    sys.path.insert(0, options.package)
    import anello.torch  # noqa: F401: registers the backend

    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    dist.init_process_group("cpu:anello,cuda:anello")
    rank, size = dist.get_rank(), dist.get_world_size()
    for blocking in (True, False):
        for name, right in collectives(rank, size, blocking):
            put(f"{name}, {'blocking' if blocking else 'asynchronous'}", right)
    for name, step in {"messages": messages, "a graph that is replayed": graph, "DDP": ddp, "FSDP2": fsdp, "Anello's own DDP": own_ddp}.items():
        try:
            right, note = step(rank, size), ""
        except Exception:
            right, note = False, traceback.format_exc().strip().splitlines()[-1]
            traceback.print_exc()
        put(name, right, note)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
