"""Refuses to be installed beside Horovod, whose modules have the same names, where the installer lets it see that."""

import importlib.metadata

from setuptools import setup

try:
    found = importlib.metadata.version("horovod")
except importlib.metadata.PackageNotFoundError:
    setup()
else:
    raise SystemExit(
        f"Horovod {found} is installed here, and anello-horovod would overwrite its modules. Remove it first "
        "(pip uninstall horovod), use another environment, or import anello.horovod.torch, which needs no "
        "anello-horovod.")
