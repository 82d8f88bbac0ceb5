"""The names of NVIDIA Apex, from anello.apex. docs/apex.md of Anello says what is there."""

import importlib
import importlib.machinery
import importlib.metadata
import pathlib
import sys


def _refuse_beside_another():
    """Two packages of one name would hide each other, or mix their files."""
    try:
        version = importlib.metadata.version("apex")
    except importlib.metadata.PackageNotFoundError:
        version = None
    if version is not None:
        raise ImportError(f"the distribution apex {version} is installed, and anello-apex has its module name: "
                          "`pip uninstall` one of the two")
    here = pathlib.Path(__file__).resolve().parent
    for place in sys.path:
        other = pathlib.Path(place or ".").resolve() / "apex"
        if other != here and (other / "__init__.py").is_file():
            raise ImportError(f"there is another apex in {other}, and anello-apex has its module name: uninstall "
                              "anello-apex, or remove that folder from the path")


_refuse_beside_another()

from anello.apex.left_out import INSTEAD as _INSTEAD, Part as _Part, refuse as _refuse  # noqa: E402
from apex import amp, parallel  # noqa: E402

__all__ = ["amp", "parallel"]


class _LeftOut:
    """Finds and loads the modules that are left out."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        words = name.split(".")
        if words[0] != "apex" or len(words) < 2 or words[1] not in _INSTEAD:
            return None
        if len(words) > 2:
            _refuse(name)
        return importlib.machinery.ModuleSpec(name, cls, is_package=True)

    @staticmethod
    def create_module(spec):
        return _Part(spec.name)

    @staticmethod
    def exec_module(module):
        pass


sys.meta_path.append(_LeftOut)


def __getattr__(name):
    if name in _INSTEAD:
        return importlib.import_module(f"apex.{name}")
    raise AttributeError(f"module 'apex' has no attribute {name!r}")
