"""Numbers for requests that come again and again, so that ranks exchange bits instead of descriptions."""


class Cache:
    """Equal on all ranks of a set: the coordinator gives out numbers, and each rank follows its responses in order. A
    new generation begins empty. Messages carry their generation, because a rank may not have heard of a newer one
    yet."""

    def __init__(self):
        self.generation = 0
        self.requests = []  # by number
        self._numbers = {}  # by key

    def __len__(self):
        return len(self.requests)

    def number(self, key):
        return self._numbers.get(key)

    def number_of(self, request):
        """The number under which exactly this request is known, or None."""
        number = self._numbers.get(request.key)
        if number is None:
            return None
        known = self.requests[number]
        return number if known is request or known == request else None

    def store(self, number, request):
        if number == len(self.requests):
            self.requests.append(request)
            self._numbers[request.key] = number
        else:
            self.requests[number] = request  # the same name, with another shape

    def begin_generation(self):
        self.generation += 1
        self.requests, self._numbers = [], {}


def numbers_in(mask):
    """The positions of the bits that are set, from the lowest on."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest
