"""DistributedOptimizer: an optimizer of the same class whose gradients are those of all ranks."""

import contextlib
import warnings

from anello.horovod.process_set import global_process_set
from anello.horovod.torch.adasum_optimizer import AdasumSteps
from anello.horovod.torch.compression import Compression
from anello.horovod.torch.gradients import Gradients
from anello.horovod.torch.reductions import Adasum, Average


class DistributedSteps:
    """The methods that DistributedOptimizer adds to the optimizer's own class."""

    def synchronize(self):
        """Waits until all gradients are those of all ranks. Call it before clipping, and step under
        skip_synchronize."""
        self._gradients.complete()
        self._synchronized = True

    @contextlib.contextmanager
    def skip_synchronize(self):
        """For a step after synchronize()."""
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def set_backward_passes_per_step(self, passes):
        """How many backward passes add to the gradients before they are sent."""
        self._gradients.set_passes(passes)

    def step(self, closure=None):
        if self._should_synchronize and self._gradients.active:
            if self._synchronized:
                warnings.warn(
                    "optimizer.step() called after optimizer.synchronize() sends the gradients a second time: use "
                    "with optimizer.skip_synchronize(): optimizer.step()", stacklevel=2)
            self.synchronize()
        self._synchronized = False
        return self._ordinary.step(self, closure) if closure is not None else self._ordinary.step(self)

    def zero_grad(self, *arguments, **named):
        if self._gradients.has_pending():
            raise AssertionError("optimizer.zero_grad() called after loss.backward() and before optimizer.step() or "
                                 "optimizer.synchronize(): the gradients are on their way and must not change")
        return self._ordinary.zero_grad(self, *arguments, **named)

    def load_state_dict(self, *arguments, **named):
        self._gradients.reset()
        self._synchronized, self._should_synchronize = False, True
        return self._ordinary.load_state_dict(self, *arguments, **named)


def DistributedOptimizer(optimizer, named_parameters=None, compression=Compression.none, backward_passes_per_step=1,
                         op=Average, gradient_predivide_factor=1.0, num_groups=0, groups=None, sparse_as_dense=False,
                         process_set=global_process_set):
    """Returns an optimizer of a subclass of the given optimizer's class, with its parameters and state. step() first
    makes the gradients those of all ranks, by op; they are sent as soon as a backward pass has computed them.

    named_parameters: the names by which ranks match gradients. gradient_predivide_factor: the average divides by this
    factor before the sum, and by the rest after it. num_groups, groups (lists of parameters): gradients that are sent
    together.
    """
    if gradient_predivide_factor != 1.0 and op is not Average:
        raise ValueError("gradient_predivide_factor belongs to op=hvd.Average")
    if groups is not None and num_groups:
        raise ValueError("num_groups and groups cannot both be given")
    if groups is not None and not (isinstance(groups, list) and all(isinstance(each, (list, tuple))
                                                                    for each in groups)):
        raise ValueError("groups must be a list of lists of parameters")
    if num_groups < 0:
        raise ValueError(f"num_groups is {num_groups}, but should be 0 or more")
    names = _names(optimizer, named_parameters)
    ordinary = type(optimizer)
    added = AdasumSteps if op is Adasum else DistributedSteps
    methods = {name: member for name, member in vars(added).items() if name not in ("__dict__", "__weakref__")}
    made = type(ordinary.__name__, (ordinary,), methods)
    distributed = made.__new__(made)
    # A scheduler may have replaced step in the object; that one would step the old optimizer.
    distributed.__dict__.update({name: value for name, value in vars(optimizer).items() if name != "step"})
    distributed._ordinary = ordinary
    if op is Adasum:
        if num_groups or groups:
            raise ValueError("groups cannot be used with op=hvd.Adasum")
        distributed._prepare(names, compression, backward_passes_per_step, process_set)
        return distributed
    distributed._synchronized, distributed._should_synchronize = False, True
    distributed._gradients = Gradients(names, compression, backward_passes_per_step, op, gradient_predivide_factor,
                                       num_groups, groups, sparse_as_dense, process_set)
    return distributed


def _names(optimizer, named_parameters):
    """Names by parameter, in the order of the optimizer."""
    mine = [each for group in optimizer.param_groups for each in group["params"]]
    if named_parameters is None:
        return {each: f"noname.{number}" for number, each in enumerate(mine)}
    pairs = list(named_parameters)
    if any(not isinstance(pair, tuple) or len(pair) != 2 for pair in pairs):
        raise ValueError(
            "named_parameters should be pairs of a name and a parameter, as model.named_parameters() gives them")
    seen = set()
    twice = sorted({name for name, _ in pairs if name in seen or seen.add(name)})
    if twice:
        raise ValueError(f"named_parameters has more than one parameter named {', '.join(twice)}")
    names = {each: name for name, each in pairs}
    missing = sum(each not in names for each in mine)
    if missing:
        raise ValueError(
            f"named_parameters lacks {missing} of the optimizer's parameters: pass those of all models that the "
            "optimizer trains")
    return {each: names[each] for each in mine}
