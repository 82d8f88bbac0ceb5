"""The loop over PyTorch's gloo, as programs use it: torch.distributed from Python. The cost of Python and the process
group is part of the time. Usage: torch_gloo_loop.py CALLBACK_LOOP.so OPTIONS.., RANK and WORLD_SIZE in the
environment."""

import ctypes
import datetime
import os
import sys
import traceback
import warnings

warnings.filterwarnings("ignore")  # the warning that NumPy is missing

import torch
import torch.distributed as dist


class Callbacks(ctypes.Structure):
    PREPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)
    CALL = ctypes.CFUNCTYPE(ctypes.c_int)
    _fields_ = [("rank", ctypes.c_int), ("size", ctypes.c_int), ("version", ctypes.c_char_p), ("prepare", PREPARE),
                ("allreduce", CALL), ("release", CALL)]


class Gloo:
    def __init__(self, directory):
        self.directory = directory
        self.tensor = None
        self.kept = []  # ctypes' functions live as long as a reference here

    def join(self, callbacks):
        torch.set_num_threads(1)  # the number of processors of a rank
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        dist.init_process_group("gloo", init_method=f"file://{self.directory}/torch", rank=rank, world_size=size,
                                timeout=datetime.timedelta(seconds=60))
        filled = callbacks.contents
        filled.rank, filled.size = rank, size
        filled.version = f"PyTorch {torch.__version__} gloo".encode()
        filled.prepare = self.keep(Callbacks.PREPARE, self.prepare)
        filled.allreduce = self.keep(Callbacks.CALL, lambda: dist.all_reduce(self.tensor))
        filled.release = self.keep(Callbacks.CALL, lambda: setattr(self, "tensor", None))

    def prepare(self, address, count):
        self.tensor = torch.frombuffer((ctypes.c_float * count).from_address(address), dtype=torch.float32)

    def keep(self, kind, function):
        def checked(*arguments):
            try:
                function(*arguments)
                return 0
            except Exception:
                traceback.print_exc()
                return 1
        self.kept.append(kind(checked))
        return self.kept[-1]


def main():
    library = ctypes.CDLL(sys.argv[1])
    words = [word.encode() for word in sys.argv[1:]]
    arguments = (ctypes.c_char_p * (len(words) + 1))(*words, None)
    gloo = Gloo(sys.argv[sys.argv.index("--directory") + 1])
    join = gloo.keep(ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Callbacks)), gloo.join)
    code = library.compare_run(len(words), arguments, join)
    sys.stdout.flush()
    os._exit(code)  # Destroying the process group may wait for peers that are gone.


if __name__ == "__main__":
    main()
