"""The reductions, by Horovod's names."""


class ReduceOp:
    """One way to combine tensors; `word` is how it travels."""

    def __init__(self, name, word):
        self.name, self.word = name, word

    def __repr__(self):
        return f"hvd.{self.name}"

    def __reduce__(self):
        return self.name  # there is one of each, whoever pickles or copies it


Average = ReduceOp("Average", "avg")
Sum = ReduceOp("Sum", "sum")
Adasum = ReduceOp("Adasum", "adasum")
Min = ReduceOp("Min", "min")
Max = ReduceOp("Max", "max")
Product = ReduceOp("Product", "prod")


def chosen(op, average):
    """Of the two arguments, of which the second is the older."""
    if op is not None and average is not None:
        raise ValueError(
            "op and average cannot both be given: average is the older name for op=hvd.Average or op=hvd.Sum")
    if op is None:
        return Sum if average is False else Average
    if not isinstance(op, ReduceOp):
        raise ValueError(f"op is {op!r}, but should be hvd.Average, Sum, Adasum, Min, Max or Product")
    return op
