"""What a training has to keep when it begins again."""

import copy

import torch

from anello.horovod import launcher
from anello.horovod.errors import HostsUpdatedInterrupt
from anello.horovod.torch.elastic.sampler import ElasticSampler
from anello.horovod.torch.functions import (allgather_object, broadcast_object, broadcast_optimizer_state,
                                            broadcast_parameters)
from anello.horovod.torch.operations import allreduce
from anello.horovod.torch.reductions import Max


class State:
    """Subclasses say how to save, restore and sync."""

    def __init__(self, **named):
        self._reset_callbacks = []

    def register_reset_callbacks(self, callbacks):
        """Functions to call when the ranks have met again, for instance to adapt the learning rate to their number."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self):
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def reset(self):
        pass

    def commit(self):
        """Keeps the state as that to which restore goes back."""
        self.save()
        self.check_host_updates()

    def check_host_updates(self):
        """Raises HostsUpdatedInterrupt on all ranks if the launcher has told one of them of ranks that join or should
        leave. Lost ranks are noticed without this."""
        there = launcher.of_this_process()
        if there is None:
            return
        added, removed = allreduce(torch.tensor(there.changes(), dtype=torch.int32), op=Max,
                                   name="elastic_changes").tolist()
        if added or removed:
            raise HostsUpdatedInterrupt(skip_sync=not added)

    def save(self):
        raise NotImplementedError

    def restore(self):
        raise NotImplementedError

    def sync(self):
        raise NotImplementedError


class ObjectState(State):
    """Attributes that can be pickled."""

    def __init__(self, **named):
        super().__init__()
        self._saved = {}
        for name, value in named.items():
            setattr(self, name, value)
        self._names = list(named)
        self.save()

    def save(self):
        self._saved = {name: copy.deepcopy(getattr(self, name)) for name in self._names}

    def restore(self):
        for name, value in self._saved.items():
            setattr(self, name, copy.deepcopy(value))

    def sync(self):
        values = broadcast_object({name: getattr(self, name) for name in self._names}, name="elastic_state")
        for name, value in values.items():
            setattr(self, name, value)
        self.save()


class _Module:
    """The last commit of a module, and how all ranks get rank 0's."""

    def __init__(self, value):
        self.value = value
        self.save()

    def save(self):
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self):
        self.value.load_state_dict(copy.deepcopy(self._saved))

    def sync(self, name):
        broadcast_parameters({f"{name}.{key}": each for key, each in self.value.state_dict().items()
                              if isinstance(each, torch.Tensor)}, 0)
        self.save()

    def reset(self):
        pass


class _Optimizer(_Module):
    def sync(self, name):
        broadcast_optimizer_state(self.value, 0)
        self.save()


class _Sampler(_Module):
    def sync(self, name):
        """What any rank has processed counts as processed."""
        states = allgather_object(self.value.state_dict(), f"elastic_{name}")
        processed = set().union(*(each["processed_indices"] for each in states))
        self.value.load_state_dict({**states[0], "processed_indices": processed})
        self.save()

    def reset(self):
        self.value.reset()


_KEEPERS = ((torch.nn.Module, _Module), (torch.optim.Optimizer, _Optimizer), (ElasticSampler, _Sampler))


def _keeper(value):
    return next((keeper(value) for kind, keeper in _KEEPERS if isinstance(value, kind)), None)


class TorchState(ObjectState):
    """model, optimizer and any other named modules, optimizers, ElasticSamplers and objects. Each is an attribute."""

    def __init__(self, model=None, optimizer=None, **named):
        given = {name: each for name, each in (("model", model), ("optimizer", optimizer)) if each is not None} | named
        keepers = {name: _keeper(each) for name, each in given.items()}
        self.__dict__["_keepers"] = {name: keeper for name, keeper in keepers.items() if keeper is not None}
        super().__init__(**{name: each for name, each in given.items() if name not in self._keepers})
        for name in self._keepers:
            self.__dict__[name] = given[name]

    def __setattr__(self, name, value):
        if name in self._keepers:  # another model instead of the one so far
            self._keepers[name] = _keeper(value)
        self.__dict__[name] = value

    def save(self):
        for keeper in self._keepers.values():
            keeper.save()
        super().save()

    def restore(self):
        for keeper in self._keepers.values():
            keeper.restore()
        super().restore()

    def sync(self):
        for name in sorted(self._keepers):
            self._keepers[name].sync(name)
        super().sync()

    def reset(self):
        for keeper in self._keepers.values():
            keeper.reset()
