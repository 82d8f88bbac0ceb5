#!/usr/bin/env python3
"""Compiles one image of kernels with nvcc and wraps it into an object file that a C++ compiler can link.

It writes three files: the object, which holds the fat binary under a symbol; ptxas' report, which the test of registers
reads; and the list of files that the source included, for ninja."""

import argparse
import pathlib
import re
import subprocess
import sys
import time

# Machine code for each generation, and the last one's PTX for later ones. Code for sm_100 needs nothing that compute_90
# does not know, so one pass of the front end serves both.
TARGETS = ["arch=compute_80,code=sm_80", "arch=compute_90,code=[sm_90,sm_100]", "arch=compute_100,code=compute_100"]
# Every operation rounds, denormals stay, and division follows IEEE 754, as in the host's kernels.
ARITHMETIC = ["-fmad=false", "-ftz=false", "-prec-div=true"]


def run(command, report):
    started = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    report.write_text(done.stdout + f"seconds {time.monotonic() - started:.1f}\n")
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}\n{command[0]} ended with {done.returncode}")
    remarks = [line for line in done.stdout.splitlines() if re.search(r"\b(warning|error)\b", line)]
    if remarks:
        print("\n".join(remarks))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nvcc", required=True)
    parser.add_argument("--host-compiler", required=True, help="with its arguments; it assembles the object")
    parser.add_argument("--include", action="append", default=[])
    parser.add_argument("--list", required=True, type=pathlib.Path, help="the kernels, as list_kernels wrote them")
    parser.add_argument("--symbol", required=True, help="the image's name in the object")
    parser.add_argument("--source", required=True)
    parser.add_argument("--object", required=True, type=pathlib.Path)
    parser.add_argument("--report", required=True, type=pathlib.Path)
    parser.add_argument("--depfile", required=True)
    options = parser.parse_args()

    image = options.object.with_suffix(".fatbin").absolute()
    run([options.nvcc, "-std=c++20", "-fatbin", "-compress-mode=size", "-Xptxas", "-v", *ARITHMETIC,
         *(word for target in TARGETS for word in ("-gencode", target)),
         *(f"-I{folder}" for folder in options.include),
         f'-DANELLO_KERNEL_LIST="{options.list.absolute()}"',
         "-MD", "-MF", options.depfile, "-MT", str(options.object), "-o", str(image), options.source], options.report)
    wrapper = image.with_suffix(".S")
    wrapper.write_text(f"""\
    .section .rodata
    .balign 64
    .global {options.symbol}, {options.symbol}_end
    .hidden {options.symbol}, {options.symbol}_end
{options.symbol}:
    .incbin "{image}"
{options.symbol}_end:
    .section .note.GNU-stack, "", %progbits
""")
    subprocess.run([*options.host_compiler.split(), "-c", str(wrapper), "-o", str(options.object)], check=True)


if __name__ == "__main__":
    main()
