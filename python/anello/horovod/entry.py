"""A submitted operation of this rank, until its result is there."""


class Entry:
    """request: what the others hear. inputs: its tensors, with their elements in order in memory. outputs: where the
    results go; None for kinds whose results have a shape that is not known yet. finish: turns outputs into the result
    that synchronize returns. staged: the inputs' way from a device (torch/staging.py), if they lie on one."""

    __slots__ = ("request", "inputs", "outputs", "finish", "staged", "result", "done", "error", "left", "extra")

    def __init__(self, request, inputs=(), outputs=None, finish=None, staged=None):
        self.request, self.inputs, self.outputs = request, inputs, outputs
        self.finish, self.staged = finish, staged
        self.result = self.error = self.extra = None
        self.done = False
        self.left = len(inputs)  # tensors of the group whose results are still missing

    @property
    def key(self):
        return self.request.key

    def bytes(self):
        return sum([tensor.nbytes for tensor in self.inputs])
