"""DataParallel: one process that trains on several devices, as torch.nn.DataParallel does."""

import torch
from torch.utils import _pytree as pytree

from anello.torch.parallel_apply import Step
from anello.torch.rank_threads import RankThreads


class DataParallel(torch.nn.Module):
    """The module, whose batches are cut along `dim` into one part for each of device_ids. Each part is computed by a
    replica of the module in a thread of its own, which is a rank; the results are put together on output_device (by
    default the first of device_ids), and in backward() the ranks add their gradients into those of the module.

    device_ids: CUDA devices by number, or devices of one type by name: [0, 1], ["cuda:0"] * 2, ["cpu"] * 4. By default
    all CUDA devices, and without any the CPU once. The module must be on the first."""

    def __init__(self, module, device_ids=None, output_device=None, dim=0):
        super().__init__()
        if device_ids is None:
            device_ids = range(torch.cuda.device_count()) if torch.cuda.is_available() else ["cpu"]
        self.devices = [_device(each) for each in device_ids]
        if not self.devices:
            raise ValueError("device_ids is empty")
        kinds = {each.type for each in self.devices}
        if len(kinds) > 1 or not kinds <= {"cpu", "cuda"}:
            raise ValueError(f"device_ids are of {' and '.join(sorted(kinds))}: give CPU workers or CUDA devices")
        self.module, self.dim = module, dim
        self.device_ids = list(device_ids)
        self.output_device = self.devices[0] if output_device is None else _device(output_device)
        self._ranks = None

    def forward(self, *inputs, **named):
        first = self.devices[0]
        for each in [*self.module.parameters(), *self.module.buffers()]:
            if each.device != first:
                raise RuntimeError(f"module must have its parameters and buffers on device {first} (device_ids[0]) but found one of "
                                   f"them on device: {each.device}")
        parts = self._scatter(inputs, named)
        if len(parts) == 1:
            arguments, others = parts[0]
            return self._moved(self.module(*arguments, **others), self.output_device)
        if self._ranks is None:
            self._ranks = RankThreads(len(self.devices))
        return self._gather(Step(self._ranks, self.module, self.devices, parts).run())

    def _scatter(self, inputs, named):
        """(arguments, named arguments) for each replica. Tensors are cut; those without dimensions and all else are for
        every replica."""
        values, spec = pytree.tree_flatten((inputs, named))
        cut = {i: each.chunk(len(self.devices), self.dim) for i, each in enumerate(values)
               if isinstance(each, torch.Tensor) and each.dim() > 0}
        sizes = {len(chunks) for chunks in cut.values()}
        if len(sizes) > 1:
            shapes = ", ".join(str(list(values[i].shape)) for i in cut)
            raise ValueError(f"tensors of shapes {shapes} do not give equally many parts along dimension {self.dim}")
        parts = []
        for number, device in enumerate(self.devices[:sizes.pop() if sizes else 1]):
            mine = [cut[i][number] if i in cut else each for i, each in enumerate(values)]
            parts.append(self._moved(pytree.tree_unflatten(mine, spec), device))
        return parts

    def _gather(self, outputs):
        flat = [pytree.tree_flatten(each) for each in outputs]
        values, specs = [values for values, _ in flat], [spec for _, spec in flat]
        if any(spec != specs[0] for spec in specs):
            raise TypeError("replicas returned structures that differ")
        return pytree.tree_unflatten([self._joined(each) for each in zip(*values)], specs[0])

    def _joined(self, parts):
        if isinstance(parts[0], torch.Tensor):
            parts = [each.to(self.output_device, non_blocking=True) for each in parts]
            return torch.stack(parts) if parts[0].dim() == 0 else torch.cat(parts, self.dim)
        if any(each != parts[0] for each in parts):
            raise TypeError(f"replicas returned {parts[0]!r} and other values: only tensors are put together")
        return parts[0]

    @staticmethod
    def _moved(tree, device):
        move = lambda each: each.to(device, non_blocking=True) if isinstance(each, torch.Tensor) else each  # noqa: E731
        return pytree.tree_map(move, tree)

    def __getstate__(self):  # threads belong to this object and process
        return {**self.__dict__, "_ranks": None}


def _device(named):
    return torch.device("cuda", named) if isinstance(named, int) else torch.device(named)
