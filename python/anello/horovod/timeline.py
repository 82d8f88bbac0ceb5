"""What happens to each tensor, as a file for chrome://tracing."""

import contextlib
import json
import threading
import time


class Timeline:
    """Off until start. Events of one tensor share a row. Any thread may record."""

    def __init__(self):
        self._lock = threading.Lock()
        self._file, self._rows, self._waiting = None, {}, {}
        self.mark_cycles = False

    def start(self, path, mark_cycles=False):
        with self._lock:
            if self._file is not None:
                raise ValueError(f"a timeline is being written to {self._file.name}: call stop_timeline first")
            opened = open(path, "w", encoding="utf-8")
            opened.write("[\n")
            self._begin, self._rows, self._waiting, self._empty = time.monotonic(), {}, {}, True
            self.mark_cycles = mark_cycles
            self._file = opened  # last: other threads record from now on

    def stop(self):
        with self._lock:
            if self._file is not None:
                self._file.write("\n]\n")
                self._file.close()
                self._file = None

    def submitted(self, request):
        if self._file is not None:
            self._waiting[request.key] = self._now()

    def agreed(self, requests):
        if self._file is None:
            return
        for request in requests:
            begin = self._waiting.pop(request.key, None)
            if begin is not None:
                self._write(f"NEGOTIATE_{request.kind.upper()}", request.name, begin)

    def operation(self, kind, requests):
        return self.activity(kind.upper(), [(request,) for request in requests])

    @contextlib.contextmanager
    def activity(self, name, items):
        if self._file is None:
            yield
            return
        begin = self._now()
        try:
            yield
        finally:
            for request, *_ in items:
                self._write(name, request.name, begin)

    def cycle(self):
        if self._file is not None and self.mark_cycles:
            with self._lock:
                self._put({"name": "CYCLE_START", "ph": "i", "s": "g", "pid": 0, "tid": 0, "ts": self._now()})

    def _now(self):
        return round((time.monotonic() - self._begin) * 1e6, 1)

    def _write(self, name, tensor, begin):
        end = self._now()
        with self._lock:
            if self._file is None:
                return
            row = self._rows.get(tensor)
            if row is None:
                row = self._rows[tensor] = len(self._rows) + 1
                self._put({"name": "thread_name", "ph": "M", "pid": 0, "tid": row, "args": {"name": tensor}})
            self._put({"name": name, "ph": "X", "pid": 0, "tid": row, "ts": begin, "dur": round(end - begin, 1)})

    def _put(self, event):
        if self._file is not None:
            self._file.write(("" if self._empty else ",\n") + json.dumps(event))
            self._empty = False
