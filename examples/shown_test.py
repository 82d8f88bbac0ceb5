#!/usr/bin/env python3
"""Checks that a page shows a program unchanged. Arguments: the page, the program."""

import pathlib
import sys

page, program = (pathlib.Path(name).read_text() for name in sys.argv[1:])
if f"```c\n{program}```\n" not in page and f"```python\n{program}```\n" not in page:
    sys.exit(f"{sys.argv[1]} does not show the program as it is: copy it over")
