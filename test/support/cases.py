"""How a file of cases that need a right or a program ends: as skipped, with the reason, where its class was."""

import sys
import unittest


def run():
    program = unittest.main(argv=[sys.argv[0], "-v"], exit=False)
    if program.result.skipped and program.result.testsRun == 0:
        print("SKIPPED:", program.result.skipped[0][1])
        sys.exit(77)
    sys.exit(0 if program.result.wasSuccessful() else 1)
