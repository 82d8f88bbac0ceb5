#!/usr/bin/env python3
"""README.md shows examples/allreduce.c as it is. Arguments: README.md, the program."""

import pathlib
import sys

readme, program = (pathlib.Path(name).read_text() for name in sys.argv[1:])
if f"```c\n{program}```\n" not in readme:
    sys.exit("README.md does not show the program as it is: copy it over")
