#!/usr/bin/env python3
"""Fails if clang-format 14 with .clang-format would change a C or C++ file, and names the lines.

  check_format.py SOURCES          check every file that git knows
  check_format.py SOURCES --fix    rewrite those that differ

The public headers are left out: their comments are tables. Other versions of clang-format format differently, so only
that version is used.
"""

import argparse
import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys

FORMATTER = "clang-format-14"
SUFFIXES = {".c", ".cpp", ".cu", ".h"}
LEFT_OUT = ("include/",)
AT_ONCE = 40  # files for one process
SKIPPED = 77


def sources(repository):
    """The files to check, or None if git cannot list them."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=repository, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        return None
    names = [name for name in listed.stdout.split("\0") if pathlib.Path(name).suffix in SUFFIXES]
    return [name for name in names if not name.startswith(LEFT_OUT) and (repository / name).is_file()]


def formatted(repository, names, fix):
    """The formatter's output for these files; empty if they are correct."""
    words = [FORMATTER, "--style=file", *(["-i"] if fix else ["--dry-run", "-Werror"]), *names]
    ended = subprocess.run(words, cwd=repository, capture_output=True, text=True, check=False)
    return ended.stderr if ended.returncode != 0 else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repository", type=pathlib.Path)
    parser.add_argument("--fix", action="store_true", help="rewrite the files that differ")
    options = parser.parse_args()
    if shutil.which(FORMATTER) is None:
        print(f"needs {FORMATTER}")
        return SKIPPED
    names = sources(options.repository)
    if names is None:
        print("needs the sources in a git repository")
        return SKIPPED
    parts = [names[at:at + AT_ONCE] for at in range(0, len(names), AT_ONCE)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        said = "".join(pool.map(lambda part: formatted(options.repository, part, options.fix), parts))
    if said:
        print(said, end="")
        print(f"{options.repository}/tools/check_format.py {options.repository} --fix mends it")
        return 1
    print(f"{len(names)} files checked")
    return 0


if __name__ == "__main__":
    sys.exit(main())
