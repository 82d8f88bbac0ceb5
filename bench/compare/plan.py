"""The measurements and their order: cells, each of which is a setting with a number of ranks in a round, for all
sizes."""

import dataclasses
import itertools
import random

import libraries

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

SIZES = (4, 64, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB, GIB)
SIZES_OF_MANY = (8, KIB, 64 * KIB, 256 * KIB, MIB, 16 * MIB, 64 * MIB, 256 * MIB)
SIZES_OF_OTHERS = (8, KIB, 16 * KIB, 256 * KIB, 4 * MIB, 64 * MIB)  # of the other collectives
QUICK_SIZES_OF_OTHERS = (8, 64 * KIB, MIB)
QUICK_SIZES = (8, 4 * KIB, 64 * KIB, MIB, 16 * MIB)
QUICK_SIZES_OF_MANY = (8, 64 * KIB, MIB)


COLLECTIVES = ("allgather", "reduce_scatter", "broadcast", "alltoall", "reduce", "barrier", "sendrecv")


@dataclasses.dataclass(frozen=True)
class Cell:
    round: int
    setting: object  # settings.Setting
    ranks: int
    sizes: tuple
    operation: str = "allreduce"
    arguments: tuple = ()  # of the loop


def sizes_for(options, operation, ranks):
    if operation == "barrier":
        return (8,)  # which it does not use
    if options.sizes:
        return options.sizes
    if operation != "allreduce":
        return QUICK_SIZES_OF_OTHERS if options.quick else SIZES_OF_OTHERS
    if options.quick:
        return QUICK_SIZES if ranks == 2 else QUICK_SIZES_OF_MANY
    return SIZES if ranks == 2 else SIZES_OF_MANY


def cells(options, chosen, memory):
    """Every setting once per round, in a different order in each. Returns (cells, sizes that need too much memory)."""
    planned, too_large = [], set()
    for number in range(options.rounds):
        of_round = []
        for operation, ranks in itertools.product(options.operations, options.ranks):
            # A buffer, and up to as much scratch within the library, with a quarter left for other programs.
            wanted = sizes_for(options, operation, ranks)
            sizes = [size for size in wanted if 2 * size * ranks <= 0.75 * memory]
            too_large |= set(wanted) - set(sizes)
            for setting in chosen:
                taken = tuple(size for size in sizes if setting.takes(size, ranks))
                if taken and (operation == "allreduce" or setting.library in libraries.COMPLETE):
                    of_round.append(Cell(number, setting, ranks, taken, operation))
        random.Random(options.seed * 1000 + number).shuffle(of_round)
        planned += of_round
    return planned, sorted(too_large)
