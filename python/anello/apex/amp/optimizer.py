"""What amp.initialize does to an optimizer: master weights, gradients without the loss's scale, and skipped steps."""

import types

import torch

from anello.apex.amp.state import state

_HALVES = (torch.float16, torch.bfloat16)
_KEY = "master_params"  # of the optimizer's state_dict


def master_params(optimizer):
    """The parameters that the optimizer changes: float32 master weights where there are some. Clip their gradients."""
    for group in optimizer.param_groups:
        yield from group["params"]


def check(optimizer):
    if not hasattr(optimizer, "param_groups"):
        raise TypeError(f"amp.initialize takes optimizers of torch; this is a {type(optimizer).__name__}")
    if hasattr(optimizer, "_amp_stash"):
        raise RuntimeError("this optimizer was already given to amp.initialize, which changes an optimizer only once")


def stash_of(optimizer):
    found = getattr(optimizer, "_amp_stash", None)
    if found is None:
        raise RuntimeError("amp.scale_loss got an optimizer that amp.initialize has not seen: give it to "
                           "amp.initialize, and use what that returns")
    return found


class Stash:
    """An optimizer's part of amp, in its attribute _amp_stash."""

    def __init__(self, optimizer, options):
        check(optimizer)
        self._optimizer, self._masters = optimizer, {}  # a master weight -> the 16-bit weight in the model
        self._keeps_masters = bool(options.master_weights)
        self.stale = True     # the model's weights may differ from their masters
        self.scaled = False   # gradients have the loss's scale, because unscaling was delayed
        self._before = {}     # gradients of earlier backward passes
        self._skip = []       # texts on why the next step is skipped
        optimizer._amp_stash = self
        if self._keeps_masters:
            for group in optimizer.param_groups:
                self._make_masters(group)
        elif options.cast_model_type is not None and optimizer.state:
            optimizer.load_state_dict(optimizer.state_dict())  # gives the state the type of the parameters
        self._patch(optimizer)
        state.stashes.add(self)

    def _make_masters(self, group):
        for at, weight in enumerate(group["params"]):
            if weight.dtype not in _HALVES:
                continue
            master = torch.nn.Parameter(weight.detach().float(), requires_grad=weight.requires_grad)
            group["params"][at], self._masters[master] = master, weight
            if weight in self._optimizer.state:
                self._optimizer.state[master] = self._optimizer.state.pop(weight)

    def refresh(self):
        """Masters follow weights that were loaded or came from another rank. One that rounds to its weight stays."""
        if self.stale:
            self.stale = False
            with torch.no_grad():
                for master, weight in self._masters.items():
                    if not torch.equal(master.to(weight.dtype), weight):
                        master.copy_(weight)

    def skip(self, why):
        self._skip.append(why)

    # ---- Around a backward pass

    def prepare(self):
        """Sets the gradients of earlier passes aside, since they no longer have the loss's scale."""
        self.refresh()
        if self.scaled:
            return
        for each in master_params(self._optimizer):
            if each in self._masters:
                self._masters[each].grad = None  # the sum is in the master's
            else:
                self._before[each], each.grad = each.grad, None

    def restore(self):
        """After an exception in the backward pass."""
        for each, gradient in self._before.items():
            each.grad = gradient
        self._before.clear()

    def unscale(self, scale, found):
        """Divides the new gradients by the scale and adds them to those of earlier passes. Sets the tensor
        found[device] to 1 if one is infinite or NaN."""
        fresh = []
        for each in master_params(self._optimizer):
            gradient = self._masters.get(each, each).grad
            if gradient is not None:
                # A copy of a master's, whose original belongs to the model.
                fresh.append((each, gradient.float() if each in self._masters else gradient))
        _divide([gradient for _, gradient in fresh], scale, found)
        for each, gradient in fresh:
            before = each.grad if each in self._masters else self._before.pop(each, None)
            each.grad = gradient if before is None else before.add_(gradient)
        self.restore()  # those without a new gradient
        self.scaled = False

    # ---- The optimizer's methods

    def _patch(self, optimizer):
        stash = self
        step, zero_grad, add_param_group = optimizer.step, optimizer.zero_grad, optimizer.add_param_group
        state_dict, load_state_dict = optimizer.state_dict, optimizer.load_state_dict

        def new_step(self, closure=None):
            if closure is not None:
                raise NotImplementedError("amp does not support step(closure): compute the loss before, and call "
                                          "step() without arguments")
            return stash._step(step)

        def new_zero_grad(self, set_to_none=True):
            zero_grad(set_to_none)
            for weight in stash._masters.values():
                if set_to_none:
                    weight.grad = None
                elif weight.grad is not None:
                    weight.grad.zero_()

        def new_add_param_group(self, param_group):
            add_param_group(param_group)
            if stash._keeps_masters:
                stash._make_masters(self.param_groups[-1])

        def new_state_dict(self):
            return stash._with_masters(state_dict())

        def new_load_state_dict(self, values):
            stash._load(values, load_state_dict)

        for each in (new_step, new_zero_grad, new_add_param_group, new_state_dict, new_load_state_dict):
            setattr(optimizer, each.__name__[len("new_"):], types.MethodType(each, optimizer))

    def _step(self, step):
        result = None
        if self._skip:
            for why in self._skip:
                state.say(why)
            self._skip.clear()
        else:
            self.refresh()
            result = step()
            with torch.no_grad():
                for master, weight in self._masters.items():
                    weight.copy_(master)
        for master in self._masters:
            master.grad = None  # model.zero_grad() does not reach it
        return result

    def _with_masters(self, values):
        """The optimizer's state, with the master weights by their parameters' numbers: training goes on exactly."""
        if self._keeps_masters:
            self.refresh()
            numbered = enumerate(master_params(self._optimizer))
            values[_KEY] = {i: each.detach() for i, each in numbered if each in self._masters}
        return values

    def _load(self, values, load_state_dict):
        load_state_dict({name: value for name, value in values.items() if name != _KEY})
        masters, parameters = values.get(_KEY, {}), list(master_params(self._optimizer))
        with torch.no_grad():
            for i, value in masters.items():
                if parameters[i] in self._masters:
                    parameters[i].copy_(value)
        self.stale = True


def _divide(gradients, scale, found):
    kinds = {}
    for each in gradients:
        kinds.setdefault((each.dtype, each.device), []).append(each)
    with torch.no_grad():
        for (_, device), same in kinds.items():
            if device not in found:
                found[device] = torch.zeros(1, device=device)
            factor = torch.full((1,), 1 / scale, device=device)
            torch._amp_foreach_non_finite_check_and_unscale_(same, found[device], factor)
