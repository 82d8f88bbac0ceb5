#!/usr/bin/env python3
"""The coordinator of anello.horovod, with ranks that are simulated: horovod_coordinator_test.py REPOSITORY

Messages arrive in random orders and late, caches are small, shapes change or differ, and ranks join. Every rank must be
told the same, each submission must be answered once, and caches must stay equal.
"""

import json
import pathlib
import random
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(sys.argv[1]).resolve() / "python"))
from anello.horovod.cache import Cache, numbers_in  # noqa: E402
from anello.horovod.coordinator import Coordinator  # noqa: E402
from anello.horovod.request import ALLREDUCE, Request  # noqa: E402


class Rank:
    """A rank as the engine makes it, without threads."""

    def __init__(self):
        self.cache, self.pending, self.answered, self.inbox, self.joined = Cache(), {}, [], [], False

    def message(self, requests, joins=False):
        mask, whole = 0, []
        for request in requests:
            self.pending[request.key] = request
            number = self.cache.number_of(request)
            if number is None:
                whole.append(request.packed())
            else:
                mask |= 1 << number
        self.joined |= joins
        return json.loads(json.dumps({"g": self.cache.generation, "c": f"{mask:x}", "n": whole,
                                      **({"j": 1} if joins else {})}))

    def hear(self, response):
        agreed = [self.cache.requests[number] for number in numbers_in(int(response.get("c", "0"), 16))]
        for packed, _, number, error in response.get("r", ()):
            request = Request.unpacked(packed)
            if number is not None:
                self.cache.store(number, request)
            agreed.append((request.key, error) if error else request)
        if response.get("z"):
            self.cache.begin_generation()
        for each in agreed:
            self.answered.append(each)
            mine = self.pending.pop(each[0] if isinstance(each, tuple) else each.key, None)
            if isinstance(each, Request) and mine is not None:
                assert mine == each, (mine, each)
        if "j" in response:
            self.joined = False


def request(name, rows):
    return Request(f"allreduce.{name}", ALLREDUCE, ("float32",), ((rows,),), "sum")


class Simulation(unittest.TestCase):
    def run_one(self, seed):
        chance = random.Random(seed)
        size, capacity = chance.randint(1, 5), chance.choice([0, 1, 2, 3, 8, 100])
        coordinator, ranks = Coordinator(list(range(size)), capacity), [Rank() for _ in range(size)]
        outboxes = [[] for _ in range(size)]
        names = [f"t{number}" for number in range(chance.randint(1, 8))]
        steps = [[request(name, chance.choice([3, 3, 3, 4])) for name in names] for _ in range(15)]
        ends = [chance.choice([15, 15, 9]) for _ in range(size)]
        done = [0] * size
        left = [None] * size  # what a rank has still to submit in its step
        for _ in range(20000):
            rank = chance.randrange(size)
            me, act = ranks[rank], chance.random()
            if act < 0.4 and me.inbox:
                me.hear(me.inbox.pop(0))
            elif act < 0.7 and outboxes[rank]:
                coordinator.take(rank, outboxes[rank].pop(0))
                response = coordinator.ready()
                if response is not None:
                    for each in ranks:
                        each.inbox.append(json.loads(json.dumps(response)))
            elif not me.joined and done[rank] < 99:
                if left[rank] is None and not me.pending:
                    if done[rank] == ends[rank]:
                        outboxes[rank].append(me.message([], joins=True))
                        done[rank] = 99
                        continue
                    left[rank] = [each if chance.random() < 0.95 else request(each.name, 5)  # a mistake of this rank
                                  for each in chance.sample(steps[done[rank]], len(names))]
                elif left[rank]:
                    count = chance.randint(1, len(left[rank]))
                    outboxes[rank].append(me.message(left[rank][:count]))
                    left[rank] = left[rank][count:]
                elif left[rank] is not None and not me.pending:
                    left[rank], done[rank] = None, done[rank] + 1
            if all(each == 99 for each in done) and not any(outboxes) and not any(each.inbox for each in ranks):
                break
        else:
            self.fail(f"seed {seed}: not finished, {done}, {[each.pending for each in ranks]}")
        for each in ranks:
            self.assertEqual(each.answered, ranks[0].answered, f"seed {seed}")
            self.assertEqual((each.cache.generation, each.cache.requests),
                             (ranks[0].cache.generation, ranks[0].cache.requests))
            self.assertFalse(each.joined)
        self.assertEqual(len(ranks[0].answered), max(ends) * len(names), f"seed {seed}")
        self.assertFalse(coordinator.is_waiting())

    def test_ranks_in_random_orders(self):
        for seed in range(200):
            self.run_one(seed)


class Inputs(unittest.TestCase):
    def test_a_generation_or_a_number_that_does_not_exist(self):
        coordinator = Coordinator([0, 1], 10)
        with self.assertRaises(ValueError):
            coordinator.take(1, {"g": 1})
        with self.assertRaises((ValueError, IndexError)):
            coordinator.take(1, {"g": 0, "c": "4"})
        with self.assertRaises(ValueError):
            coordinator.take(1, {"n": [["too", "short"]]})

    def test_texts_name_the_ranks_of_the_job(self):
        coordinator = Coordinator([2, 5], 10)
        coordinator.take(0, {"n": [request("x", 3).packed()]})
        self.assertIsNone(coordinator.ready())
        self.assertEqual([(name, missing) for name, _, missing in coordinator.stalled(0)], [("x", [5])])
        coordinator.take(1, {"n": [request("x", 4).packed()]})
        (_, _, _, error), = coordinator.ready()["r"]
        self.assertIn("rank 2 submitted allreduce of float32[3]", error)
        self.assertIn("rank 5 submitted allreduce of float32[4]", error)


if __name__ == "__main__":
    sys.argv[1:] = []
    unittest.main(verbosity=2)
