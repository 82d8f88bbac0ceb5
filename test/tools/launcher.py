"""What the tests of anellorun share: starting it, talking to it, and looking at processes by number."""

import os
import pathlib
import re
import signal
import subprocess
import time

DEADLINE = 20  # of everything that should happen soon; the machine may be busy

# Run in the background or under nohup, the tests would pass on that these are ignored, and a shell then cannot trap them.
for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)


# Else the launcher would say to how many threads it has set this.
os.environ.setdefault("OMP_NUM_THREADS", "1")


class Launcher:
    def __init__(self, program, arguments, **more):
        self.process = subprocess.Popen([program, *arguments], stdin=more.pop("stdin", subprocess.DEVNULL),
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)

    def line(self):
        """The next line of its standard output, without the newline."""
        return self.process.stdout.readline().rstrip("\n")

    def send(self, number):
        self.process.send_signal(number)

    def end(self, text=None):
        """Exit code, standard output, standard error."""
        out, err = self.process.communicate(text, timeout=DEADLINE)
        return self.process.returncode, out, err

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.communicate()


def state(pid):
    """'R', 'S', 'T', ..; 'Z' for an ended process that nobody has waited for, and for one that is gone."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return "Z"
    return re.search(r"\) (\S)", text)[1]


def until(holds, what):
    end = time.monotonic() + DEADLINE
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"not within {DEADLINE} s: {what}")
        time.sleep(0.005)
