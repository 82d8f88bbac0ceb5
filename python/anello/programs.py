"""The programs that an installation brings along, as console scripts: anellorun, anello-perf, anello-info,
anello-plan, anello-top and anello-tune. Each script becomes the program, so signals and exit codes are the program's own."""

import os
import pathlib
import sys

NAMES = ("anellorun", "anello-perf", "anello-info", "anello-plan", "anello-top", "anello-tune")


def places(name):
    """Where the program may be: in this package, or in the build folder of the clone that this package is read from."""
    here = pathlib.Path(__file__).resolve().parent
    found = [here / "bin" / name]
    clone = here.parent.parent
    if (clone / "meson.build").exists():
        found.append(clone / "build" / ("bench" if name == "anello-perf" else "tools") / name)
    return found


def run():
    name = pathlib.Path(sys.argv[0]).name
    for place in places(name):
        if place.exists():
            try:
                os.execv(place, [name, *sys.argv[1:]])
            except OSError as error:
                sys.exit(f"{name}: {place} cannot be started: {error.strerror}")
    sys.exit(f"{name}: this installation of the Python package was made without the programs. In a clone, "
             f"tools/package makes a wheel that has them; tools/quickstart builds them in build/.")
