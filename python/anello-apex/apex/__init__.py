"""The names of NVIDIA Apex, from anello.apex. docs/apex.md of Anello says what is there."""

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

from anello.apex.left_out import refuse as _refuse  # noqa: E402
from apex import amp, parallel  # noqa: E402

__all__ = ["amp", "parallel"]


class _LeftOut:
    """Says at `import apex.optimizers` what takes the place of a part that is left out."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.startswith("apex."):
            _refuse(name.split(".")[1])


sys.meta_path.append(_LeftOut)


def __getattr__(name):
    _refuse(name)
    raise AttributeError(f"module 'apex' has no attribute {name!r}")
