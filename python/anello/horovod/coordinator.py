"""Rank 0 of a set decides which tensors all ranks have submitted, and tells all of them in one order.

A rank's message is a dictionary with
  g  the generation of its cache
  c  bits of the requests that it submits by number, in hexadecimal
  n  requests that have no number, each as a list
  j  whether it has joined; b: why it leaves
and a response one with
  c  bits of the requests to execute first, by number
  r  [request, rows of each rank or None, its number or None, error or None], in the order of execution
  z  whether a new generation of the cache begins after that
  j  the rank that joined last, once all have
  b  [rank that leaves, why]
Empty fields are left out.
"""

import collections
import time

from anello.horovod import request as requests
from anello.horovod.cache import Cache, numbers_in
from anello.horovod.request import Request, difference

_JOINABLE_OPS = ("sum", "avg", "adasum")


class Coordinator:
    def __init__(self, ranks, capacity):
        """ranks: those of the set, as the program knows them. All else here counts places in the set."""
        self._ranks, self._size, self._capacity = ranks, len(ranks), capacity
        size = self._size
        self._cache = Cache()
        self._older = {}                  # requests of earlier generations that some rank may still use
        self._generations = [0] * size    # of each rank's last message
        self._bits = [0] * size           # requests by number that wait for other ranks
        self._loose = 0                   # numbers that a rank has submitted with another shape: bits go to the table
        self._table = {}                  # key: requests by rank
        self._since = {}                  # key: when this rank has first seen that it waits
        self._used = collections.OrderedDict()  # keys that have been complete once
        self._joined = []
        self._leaving = None

    # ---- What ranks say

    def take(self, rank, message):
        generation, mask = message.get("g", 0), int(message.get("c", "0"), 16)
        if not 0 <= generation <= self._cache.generation:
            raise ValueError(f"rank {rank} speaks of generation {generation} of the cache")
        known = self._cache.requests if generation == self._cache.generation else self._older[generation]
        if mask >> len(known):
            raise ValueError(f"rank {rank} speaks of number {mask.bit_length() - 1}, which the cache does not have")
        self._generations[rank] = generation
        if generation < self._cache.generation:
            for number in numbers_in(mask):
                self._add(rank, known[number])
        else:
            for number in numbers_in(mask & self._loose):
                self._add(rank, self._cache.requests[number])
            self._bits[rank] |= mask & ~self._loose
        for fields in message.get("n", ()):
            self._add(rank, Request.unpacked(fields))
        if message.get("j"):
            self._joined.append(rank)
        if "b" in message and self._leaving is None:
            self._leaving = [rank, message["b"]]

    def _add(self, rank, request):
        number = self._cache.number(request.key)
        if number is not None and not self._loose >> number & 1:
            self._loose |= 1 << number
            for other in range(self._size):
                if self._bits[other] >> number & 1:
                    self._bits[other] ^= 1 << number
                    self._table.setdefault(request.key, {})[other] = self._cache.requests[number]
        self._table.setdefault(request.key, {})[rank] = request
        self._since.setdefault(request.key, time.monotonic())

    # ---- What all ranks hear

    def ready(self):
        """The response that is due, or None."""
        response, lists = {}, []
        mask = self._ready_bits()
        if mask:
            for rank in range(self._size):
                self._bits[rank] &= ~mask
            for number in numbers_in(mask):
                self._since.pop(self._cache.requests[number].key, None)
            response["c"] = f"{mask:x}"
        for key in [key for key, known in self._table.items() if self._is_complete(known)]:
            self._since.pop(key, None)
            lists.append(self._agreed(key, self._table.pop(key), response))
        if lists:
            response["r"] = lists
        if response.get("z"):
            self._begin_generation()
        if len(self._joined) == self._size:
            response["j"] = self._joined[-1]
            self._joined.clear()
        if self._leaving is not None:
            response["b"], self._leaving = self._leaving, None
        return response or None

    def _ready_bits(self):
        waiting = 0
        for bits in self._bits:
            waiting |= bits
        if self._joined:  # each needs a look at what the joined ranks contribute
            for number in numbers_in(waiting):
                self._add_all(number)
            return 0
        for bits in self._bits:
            waiting &= bits
        return waiting

    def _add_all(self, number):
        for rank in range(self._size):
            if self._bits[rank] >> number & 1:
                self._bits[rank] ^= 1 << number
                self._add(rank, self._cache.requests[number])

    def _is_complete(self, known):
        return len(known) == self._size or all(rank in known or rank in self._joined for rank in range(self._size))

    def _agreed(self, key, known, response):
        first = known[min(known)]
        by_rank = {self._ranks[place]: each for place, each in known.items()}
        error = difference(by_rank) or self._cannot_join(first, known)
        if error:
            return [first.packed(), None, None, error]
        rows = None
        if first.kind == requests.ALLGATHER:
            rows = [known[rank].rows() if rank in known else [0] * len(first.shapes) for rank in range(self._size)]
        elif first.kind == requests.ALLTOALL:
            rows = [known[rank].splits for rank in range(self._size)]
        return [first.packed(), rows, self._numbered(key, first, response), None]

    def _cannot_join(self, first, known):
        if len(known) == self._size:
            return None
        absent = [self._ranks[place] for place in range(self._size) if place not in known]
        if first.kind == requests.ALLTOALL or first.op not in ("", *_JOINABLE_OPS):
            return (
                f"tensor {first.name!r}: {first.described()} is not possible beside join, which rank {absent[0]} has "
                f"called; sums, averages, allgather and broadcast are")
        if first.root in absent:
            return f"tensor {first.name!r}: its root, rank {first.root}, has called join and sends nothing"
        return None

    def _numbered(self, key, first, response):
        """A number for a request that comes for the second time: names that a program makes up for each call never
        do."""
        number = self._cache.number(key)
        if number is not None:
            self._loose &= ~(1 << number)
        elif first.kind in requests.RAGGED or not self._capacity:
            return None
        elif key not in self._used:
            self._used[key] = None
            if len(self._used) > 4 * self._capacity:
                self._used.popitem(last=False)
            return None
        elif len(self._cache) < self._capacity:
            number = len(self._cache)
        else:
            response["z"] = 1
            return None
        self._cache.store(number, first)
        return number

    def _begin_generation(self):
        for rank in range(self._size):
            for number in numbers_in(self._bits[rank]):
                self._table.setdefault(self._cache.requests[number].key, {})[rank] = self._cache.requests[number]
            self._bits[rank] = 0
        self._older[self._cache.generation] = self._cache.requests
        self._loose = 0
        self._cache.begin_generation()
        for generation in [each for each in self._older if each < min(self._generations)]:
            del self._older[generation]

    # ---- What waits

    def is_waiting(self):
        return bool(self._table) or any(self._bits) or bool(self._joined)

    def stalled(self, seconds):
        """[(name, seconds, ranks that have not submitted it)] of what has waited for at least this long."""
        now, late = time.monotonic(), []
        waiting = {key: set(known) for key, known in self._table.items()}
        for rank, bits in enumerate(self._bits):
            for number in numbers_in(bits):
                waiting.setdefault(self._cache.requests[number].key, set()).add(rank)
        for key, known in waiting.items():
            age = now - self._since.setdefault(key, now)
            if age >= seconds:
                missing = [
                    self._ranks[place] for place in range(self._size)
                    if place not in known and place not in self._joined
                ]
                late.append((key.split(".", 1)[1], age, missing))
        return late
