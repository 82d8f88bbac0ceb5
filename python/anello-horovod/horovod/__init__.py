"""Horovod's modules over Anello: import horovod.torch as hvd. See anello.horovod."""

import importlib.metadata

try:
    _other = importlib.metadata.version("horovod")
except importlib.metadata.PackageNotFoundError:
    _other = None
if _other is not None:
    raise ImportError(
        f"Horovod {_other} and anello-horovod are both installed, and one has overwritten modules of the other. Remove "
        "both (pip uninstall horovod anello-horovod), and then install the one that you want")

__version__ = "0.1.0"


def run(*arguments, **named):
    raise NotImplementedError(
        "horovod.run is not there: start the script with anellorun -np N python script.py, or with "
        "torchrun, mpirun or srun")
