"""Processes that find torch imported: to import it takes longer than most cases.

A template imports it once and forks for each program that it is given. Such a process differs from one started anew only in
what it has imported: its environment, output, signals and end are its own.
"""

import json
import os
import subprocess
import sys


class Template:
    def __init__(self, python, environment):
        self.process = subprocess.Popen([python, "-W", "ignore", __file__], env=environment, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def _ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def start(self, program, environment, output):
        """The number of the new process. Its output goes to that file."""
        return self._ask(program=program, environment=environment, output=str(output))

    def ended(self, pid):
        """The exit code of a process, as subprocess has it; None: it runs."""
        return self._ask(ended=pid)

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def _run(request):
    """In the new process. What the program leaves behind goes at the interpreter's end, as usual."""
    os.environ.clear()
    os.environ.update(request["environment"])
    output = os.open(request["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for here, there in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(here, there)
    os.close(output)
    os.close(nothing)
    sys.stdin, sys.stdout = (open(number, mode, encoding="utf-8", closefd=False) for number, mode in ((0, "r"), (1, "w")))
    return request["program"]


def _serve():
    """The program of a process that has been forked; None at the end."""
    for line in sys.stdin:
        request = json.loads(line)
        if "ended" in request:
            pid, status = os.waitpid(request["ended"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        else:
            answer = os.fork()
            if answer == 0:
                return _run(request)
        print(json.dumps(answer), flush=True)
    return None


if __name__ == "__main__":
    import gc
    import torch
    import torch._dynamo  # which DistributedDataParallel imports
    import torch.distributed
    import torch.nn.parallel
    gc.freeze()  # what has been imported is not looked through, and so copied, in each process
    program = _serve()
    if program is not None:
        exec(compile(program, "<program>", "exec"), {"__name__": "__main__"})
