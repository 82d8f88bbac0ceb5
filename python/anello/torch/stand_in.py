"""ANELLO_TORCH_AS: for frameworks that accept only backends that they know. With "gloo", "nccl" or both, PyTorch makes
an Anello group wherever a program asks for one of these names, and says that name when a program asks which backend
a group has."""

import functools
import os

from torch.distributed import distributed_c10d as c10d

_OURS = "anello"
_DEVICES = {"gloo": "cpu", "nccl": "cuda"}


def names():
    """The names in the variable. Raises ValueError for one that is not a backend of PyTorch."""
    found = [word.strip().lower() for word in os.environ.get("ANELLO_TORCH_AS", "").split(",") if word.strip()]
    for name in found:
        if name not in _DEVICES:
            raise ValueError(f"ANELLO_TORCH_AS has {name!r}; it may have {' and '.join(_DEVICES)}, with a comma between")
    return found


def install(chosen):
    """Replaces PyTorch's functions that take or tell a backend's name."""
    asked = None  # what the program calls its default backend

    def ours(backend):
        nonlocal asked
        if backend is None:
            return None
        parts = [part.strip().rpartition(":") for part in str(backend).lower().split(",")]
        asked = asked or next((name for *_, name in parts if name in chosen), None)
        return ",".join(f"{device}{colon}{_OURS if name in chosen else name}" for device, colon, name in parts)

    def theirs(device):
        """What the program calls the backend of a device, or of all of them."""
        return next((name for name in chosen if _DEVICES[name] == device), asked or chosen[0])

    def replace(name, place):
        """place: of the argument that is a backend."""
        original = getattr(c10d, name)

        @functools.wraps(original)
        def function(*arguments, **named):
            if len(arguments) > place:
                arguments = (*arguments[:place], ours(arguments[place]), *arguments[place + 1:])
            elif named.get("backend") is not None:
                named["backend"] = ours(named["backend"])
            return original(*arguments, **named)

        _everywhere(name, function)

    replace("init_process_group", 0)
    replace("new_group", 2)
    tell = c10d.get_backend

    @functools.wraps(tell)
    def get_backend(group=None):
        parts = [part.rpartition(":") for part in str(tell(group)).split(",")]
        return c10d.Backend(",".join(f"{device}{colon}{theirs(device) if name == _OURS else name}"
                                     for device, colon, name in parts))

    _everywhere("get_backend", get_backend)
    for name in chosen:
        _everywhere(f"is_{name}_available", lambda: True)
        c10d.Backend.default_device_backend_map[_DEVICES[name]] = _OURS


def _everywhere(name, function):
    import torch.distributed

    setattr(c10d, name, function)
    setattr(torch.distributed, name, function)
