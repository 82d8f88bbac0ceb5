"""What an opt_level means, and what a program changes about it."""

import dataclasses

import torch

_BOOLEANS = {"True": True, "False": False, True: True, False: False, None: None}


@dataclasses.dataclass
class Options:
    enabled: bool
    opt_level: str
    cast_model_type: object       # a type; "half" for the one of the model's device; None: the model is not cast
    patch_torch_functions: bool
    keep_batchnorm_fp32: object   # None where the model is not cast to 16 bits
    master_weights: bool
    loss_scale: object            # "dynamic" or a number

    def describe(self):
        return "\n".join(f"{name:22} : {value}" for name, value in dataclasses.asdict(self).items())


_LEVELS = {
    "O0": ("float32 training", Options(True, "O0", torch.float32, False, None, False, 1.0)),
    "O1": ("functions of torch cast their inputs", Options(True, "O1", None, True, None, None, "dynamic")),
    "O2": ("a 16-bit model with float32 batch norm and float32 master weights",
           Options(True, "O2", "half", False, True, True, "dynamic")),
    "O3": ("a 16-bit model", Options(True, "O3", "half", False, False, False, 1.0)),
}


def choose(opt_level, **changes):
    """The options of a level with those changes that are not None, and a text that says so."""
    if opt_level not in _LEVELS:
        raise RuntimeError(f"opt_level is {opt_level!r}, which is none of \"O0\", \"O1\", \"O2\" and \"O3\" (the "
                           "letter O, then a digit)")
    title, defaults = _LEVELS[opt_level]
    options = dataclasses.replace(defaults)
    for name, value in changes.items():
        if value is not None:
            setattr(options, name, _READ[name](name, value))
    _check(options)
    return options, (f"Selected optimization level {opt_level}: {title}\nProcessing user overrides gives:\n"
                     f"{options.describe()}")


def _boolean(name, value):
    if not isinstance(value, (str, bool)) or value not in _BOOLEANS:
        raise RuntimeError(f"{name} is {value!r}, which is neither True nor False")
    return _BOOLEANS[value]


def _type(name, value):
    if not isinstance(value, torch.dtype) or not value.is_floating_point:
        raise RuntimeError(f"{name} is {value!r}, which is no floating-point type of torch")
    return value


def _scale(name, value):
    if value == "dynamic":
        return value
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = 0
    if not 0 < number < float("inf"):
        raise RuntimeError(f"{name} is {value!r}, which is neither \"dynamic\" nor a positive number")
    return number


_READ = {"cast_model_type": _type, "patch_torch_functions": _boolean, "keep_batchnorm_fp32": _boolean,
         "master_weights": _boolean, "loss_scale": _scale}


def _check(options):
    if options.opt_level == "O1":
        for name in ("cast_model_type", "keep_batchnorm_fp32", "master_weights"):
            if getattr(options, name):
                raise RuntimeError(f"{name} has no place in opt_level O1, which leaves the model in float32: use O2, "
                                   f"or leave {name} out")
    elif options.patch_torch_functions:
        raise RuntimeError(f"patch_torch_functions=True belongs to opt_level O1, not to {options.opt_level}")
