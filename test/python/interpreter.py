"""Which Python has torch, and what its processes need around them to find this tree's package and library."""

import os
import pathlib
import subprocess
import sys


def with_torch(repository, also=()):
    """The interpreter, which has these modules as well, or None and why there is none."""
    named = os.environ.get("ANELLO_TEST_PYTHON")
    usual = [str(repository / "build" / place / "bin" / "python") for place in ("torch-venv", "peers/torch", "frameworks-venv")]
    places = [named] if named else usual
    why = []
    for place in places:
        if not pathlib.Path(place).exists():
            why.append(f"{pathlib.Path(place).name} of {pathlib.Path(place).parent.parent.name} is not there")
            continue
        ask = "import torch; print(torch.__version__)"
        asked = subprocess.run([place, "-W", "ignore", "-c", ask], capture_output=True, text=True, timeout=120, check=False)
        version = asked.stdout.strip().split("\n")[-1]
        if asked.returncode != 0:
            why.append(f"{place} has no torch")
        elif tuple(int(part) for part in version.split("+")[0].split(".")[:2]) < (2, 13):
            why.append(f"{place} has torch {version}, older than 2.13")
        elif lacks := _lacking(place, also):
            why.append(f"{place} has torch, but no {' and no '.join(lacks)}")
        else:
            return place, None
    wanted = " and ".join(["torch >= 2.13", *also])
    return None, "; ".join(why) + f"; ANELLO_TEST_PYTHON may name a Python with {wanted}"


def _lacking(place, modules):
    ask = "import importlib.util, sys; print(*[name for name in sys.argv[1:] if importlib.util.find_spec(name) is None])"
    asked = subprocess.run([place, "-c", ask, *modules], capture_output=True, text=True, timeout=60, check=True)
    return asked.stdout.split()


def environment(repository, library, scratch):
    """As if the package were installed: PyTorch finds entry points in the metadata of what is on its path."""
    metadata = pathlib.Path(scratch) / "anello-0.1.0.dist-info"
    metadata.mkdir(exist_ok=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: anello\nVersion: 0.1.0\n")
    (metadata / "entry_points.txt").write_text("[torch.backends]\nanello = anello.torch.register:autoload\n")
    here = pathlib.Path(__file__).resolve().parent
    path = [str(repository / "python"), str(repository / "python" / "anello-apex"), str(scratch), str(here)]
    around = {name: value for name, value in os.environ.items() if not name.startswith("ANELLO_TEST_")}
    return {**around, "PYTHONPATH": os.pathsep.join(path), "ANELLO_LIBRARY": str(library), "OMP_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "ignore:Failed to initialize NumPy"}


def or_skip(repository):
    """For a test program: the interpreter, or the end of the program as skipped."""
    place, why = with_torch(repository)
    if place is None:
        print(why)
        sys.exit(77)
    return place


def images_or_skip():
    """The folder of Fashion-MNIST, or the end of the program as skipped."""
    data = pathlib.Path("/usr/share/datasets/fashion-mnist")
    if not (data / "train-images-idx3-ubyte.gz").exists():
        print(f"{data} has no images; install dataset-fashion-mnist")
        sys.exit(77)
    return data
