"""Each rank has a tensor; afterwards each has the sum. Start it with anellorun -np 2 python allreduce.py, or with torchrun."""

import torch
import torch.distributed as dist

dist.init_process_group("anello")
rank, size = dist.get_rank(), dist.get_world_size()
x = torch.tensor([rank, 1.0, 2.0 * rank])
dist.all_reduce(x)
print(f"rank {rank} of {size}: {x.tolist()}")

model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1))
model(x * (rank + 1)).sum().backward()
print(f"rank {rank} of {size}: the gradient of all ranks {model.module.weight.grad.tolist()}")
dist.destroy_process_group()
