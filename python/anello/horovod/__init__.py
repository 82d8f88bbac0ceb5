"""Horovod's interface over Anello: a script that was written for Horovod keeps its code.

`anello.horovod.torch` has the names of `horovod.torch`. The distribution anello-horovod gives them that name, too, for
scripts that say `import horovod.torch as hvd`. Importing this module does not import torch.
"""
