#!/usr/bin/env python3
"""Fails if a file includes a file that its layer may not. The rules are in layers.txt beside this file."""

import argparse
import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*(<[^>]+>|"[^"]+")')
SOURCES = {".h", ".hpp", ".c", ".cc", ".cpp", ".def", ".in", ".cu"}
# The folders in which an include is looked up if it is not beside its file, as in the compiler's command line.
ROOTS = ["lib", ".", "include", "tools", "bench"]


class Rules:
    def __init__(self, text):
        self.layers = {}  # path -> layer
        self.may = {}
        self.never = {}
        for number, line in enumerate(text.splitlines(), 1):
            line = line.split("#", 1)[0].strip()
            if not line:
                continue
            found = re.fullmatch(r"(layer|may|never)\s+(\w+)\s*:\s*(.*)", line)
            if not found:
                raise ValueError(f"layers.txt:{number}: not understood: {line}")
            word, layer, values = found[1], found[2], found[3].split()
            if word == "layer":
                self.layers.update(dict.fromkeys(values, layer))
            else:
                getattr(self, word)[layer] = set(values)
        known = set(self.layers.values())
        for layer, others in self.may.items():
            for name in {layer} | others:
                if name not in known:
                    raise ValueError(f"layers.txt: no layer is called {name}")

    def layer_of(self, path):
        """The layer of a path relative to the root, or None."""
        fitting = [p for p in self.layers if path == p or (p.endswith("/") and path.startswith(p))]
        return self.layers.get(max(fitting, key=len, default=None))


def resolve(root, source, name, quoted):
    """The included file relative to root, or None if it is not in this tree (system headers, generated headers)."""
    places = ([source.parent] if quoted else []) + [root / place for place in ROOTS]
    for place in places:
        candidate = (place / name).resolve()
        if candidate.is_file() and candidate.is_relative_to(root):
            return candidate.relative_to(root).as_posix()
    return None


def check_file(root, source, rules):
    path = source.relative_to(root).as_posix()
    layer = rules.layer_of(path)
    if layer is None:
        return [f"{path}: belongs to no layer; name its folder in tools/layers.txt"]
    faults = []
    for number, line in enumerate(source.read_text(errors="replace").splitlines(), 1):
        found = INCLUDE.match(line)
        if not found:
            continue
        name = found[1][1:-1]
        target = resolve(root, source, name, found[1][0] == '"')
        other = rules.layer_of(target) if target else None
        where = f"{path}:{number}"
        if other and other != layer and other not in rules.may.get(layer, set()):
            faults.append(f"{where}: {layer} includes {found[1]} of {other}, which it may not")
        forbidden = rules.never.get(layer, set())
        if found[1] in forbidden or name in forbidden:
            faults.append(f"{where}: {layer} never includes {found[1]}")
    return faults


def check(root, rules):
    """All faults of the tree, and the number of files read."""
    faults, count = [], 0
    for top in sorted({path.split("/")[0] for path in rules.layers}):
        for source in sorted((root / top).rglob("*")):
            if source.suffix in SOURCES and source.is_file():
                count += 1
                faults += check_file(root, source, rules)
    return faults, count


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", type=pathlib.Path, default=here.parent, help="the repository")
    parser.add_argument("--rules", type=pathlib.Path, default=here / "layers.txt")
    options = parser.parse_args()
    faults, count = check(options.root.resolve(), Rules(options.rules.read_text()))
    for fault in faults:
        print(fault)
    print(f"{count} files, {len(faults)} includes that a layer may not have")
    return 1 if faults or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
