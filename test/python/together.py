"""One of the ranks that run_ranks starts, for files of cases that share it: to import torch takes longer than most of them.
together.py FILE.. [-k WORD]"""

import pathlib
import sys

import case

if __name__ == "__main__":
    case.main([pathlib.Path(file).stem if file.endswith(".py") else file for file in sys.argv[1:]])
