"""A sampler that knows what has been processed in this epoch, and divides the rest among the ranks that are there."""

import torch
from torch.utils.data import Sampler

from anello.horovod import world


class ElasticSampler(Sampler):
    """As torch's DistributedSampler. Call record_batch after each batch, and make it a part of the TorchState."""

    def __init__(self, dataset, shuffle=True, seed=0):
        self.dataset, self.shuffle, self.seed = dataset, shuffle, seed
        self.epoch = 0
        self.processed_indices = set()
        self.reset()

    def set_epoch(self, epoch):
        """Call it at the end of an epoch: nothing counts as processed any more."""
        self.epoch = epoch
        self.processed_indices = set()
        self.reset()

    def record_batch(self, batch_idx, batch_size):
        """Batch number batch_idx of this epoch, since the last reset, has been processed."""
        self.record_indices(self.get_indices(batch_idx, batch_size))

    def record_indices(self, indices):
        self.processed_indices.update(indices)

    def get_indices(self, batch_idx, batch_size):
        begin = batch_idx * batch_size
        return self.indices[begin:min(begin + batch_size, len(self.indices))]

    def state_dict(self):
        return {"epoch": self.epoch, "processed_indices": self.processed_indices}

    def load_state_dict(self, state_dict):
        self.epoch = state_dict["epoch"]
        self.processed_indices = set(state_dict["processed_indices"])
        self.reset()

    def reset(self):
        """Divides what is left among the ranks; without init there is one."""
        there = world.current() if world.is_initialized() else None
        self.rank, self.num_replicas = (there.rank, there.size) if there is not None else (0, 1)
        self.remaining_indices = [each for each in range(len(self.dataset)) if each not in self.processed_indices]
        self.num_samples = -(-len(self.remaining_indices) // self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas
        self.indices = self._mine()

    def _mine(self):
        order = list(self.remaining_indices)
        if self.shuffle:
            generator = torch.Generator()
            generator.manual_seed(self.seed + self.epoch)
            order = [order[place] for place in torch.randperm(len(order), generator=generator).tolist()]
        while order and len(order) < self.total_size:
            order += order[:self.total_size - len(order)]
        return order[self.rank:self.total_size:self.num_replicas]

    def __iter__(self):
        self.indices = self._mine()
        return iter(self.indices)

    def __len__(self):
        return self.num_samples
