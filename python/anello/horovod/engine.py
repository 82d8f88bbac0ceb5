"""One process set at work: submissions, negotiation, execution, and the end.

Any thread submits entries. They wait for a cycle, or until a thread wants a result, and are then sent to rank 0 of the
set. A second thread receives rank 0's responses and carries them out; on rank 0 it also is the coordinator. Both sleep
while there is nothing to do: the one until a submission, the other in the library, until a message comes.
"""

import json
import sys
import threading

from anello.errors import ABORTED, AnelloError
from anello.horovod.cache import Cache, numbers_in
from anello.horovod.coordinator import Coordinator
from anello.horovod.entry import Entry
from anello.horovod.errors import HorovodInternalError
from anello.horovod.execution import Execution
from anello.horovod.mailbox import Inbox, Outbox
from anello.horovod.request import Request

_WORTH = 16 << 20   # bytes of tensors that are submitted after one cycle; fewer wait for company
_CYCLES = 10        # at most
_PARTING = 10       # seconds that a rank which leaves waits for the others to hear of it


class Engine:
    def __init__(self, communicator, ranks, settings, timeline):
        """communicator becomes the engine's own. ranks: those of the set, as the program knows them."""
        self._communicator, self._ranks, self._timeline = communicator, list(ranks), timeline
        self._rank = self._ranks[communicator.rank]
        self._settings = settings
        self._state = threading.Lock()  # guards what follows, up to the failure
        self._done, self._to_send = threading.Condition(self._state), threading.Condition(self._state)
        self._entries = {}       # submitted and not complete, by key
        self._unsent, self._unsent_bytes = [], 0
        self._joining = None     # the entry of join
        self._says_join = False
        self._says_leave = None
        self._ended = False
        self._watches = False    # the coordinator waits for a rank
        self.failure = None      # an exception: nothing can be submitted any more
        self.lost = set()
        self._sending = threading.Lock()
        self._cache, self._cache_lock = Cache(), threading.Lock()
        self._names = {}
        leads = communicator.rank == 0
        self._outbox, self._responses = Outbox(communicator), Outbox(communicator)
        self._inbox = Inbox(communicator, range(communicator.size) if leads else [0])
        self._coordinator = Coordinator(self._ranks, settings.cache_capacity) if leads else None
        self._warned = set()
        self._execution = Execution(communicator, self._ranks, settings.fusion_threshold, timeline)
        self._threads = [threading.Thread(target=each, name=f"hvd-{each.__name__.strip('_')}", daemon=True)
                         for each in (self._send_from_time_to_time, self._execute)]
        for thread in self._threads:
            thread.start()

    # ---- What threads of the program call

    def automatic_name(self, kind):
        with self._state:
            number = self._names[kind] = self._names.get(kind, -1) + 1
        return f"noname.{number}"

    def submit(self, entry):
        with self._state:
            if self.failure is not None:
                raise self.failure.with_traceback(None)
            if entry.key in self._entries:
                raise ValueError(
                    f"{entry.request.kind} of {entry.request.name!r} on rank {self._rank}: a tensor of this name "
                    "is still under way. Give each a name of its own, or wait for the first")
            self._entries[entry.key] = entry
            self._unsent.append(entry.request)
            before = self._unsent_bytes
            self._unsent_bytes += entry.bytes()
            if len(self._unsent) == 1 or before < _WORTH <= self._unsent_bytes:
                self._to_send.notify()
        self._timeline.submitted(entry.request)

    def join(self):
        with self._state:
            if self.failure is not None:
                raise self.failure.with_traceback(None)
            if self._joining is not None:
                raise ValueError(f"rank {self._rank} has already called join")
            entry = self._joining = Entry(Request("join.join", "join"))
            self._says_join = True
            self._to_send.notify()
        return entry

    def wait(self, entry):
        """Until the entry is done. Its error is the caller's to raise."""
        if entry.done:
            return
        self._send_now()
        with self._state:
            while not entry.done:
                self._done.wait()

    def hurry(self):
        """Sends what waits for the end of its cycle."""
        self._send_now()

    def shut_down(self, why):
        """Ends both threads. Ranks that submit later, or wait for this one, get an error with `why`."""
        with self._state:
            if not self._ended:
                self._says_leave = why
                self._to_send.notify()
        self._send_now()
        executor = self._threads[1]
        if executor is not threading.current_thread():
            executor.join(_PARTING)
            if executor.is_alive():
                self._abort(why)
                executor.join()
            with self._state:
                self._ended = True
                self._to_send.notify()
            self._threads[0].join()
        for box in (self._outbox, self._responses):
            box.finish(_PARTING)
        handle, self._communicator.handle = self._communicator.handle, None
        self._communicator._library.anello_comm_destroy(handle)
        for box in (self._inbox, self._outbox, self._responses):
            box.drain()

    def _abort(self, why):
        try:
            self._communicator.abort(why)
        except AnelloError:
            pass  # it has failed already, and everybody knows

    # ---- Sending

    def _send_from_time_to_time(self):
        tick = self._settings.stall_check / 4 if self._settings.stall_check else None
        while True:
            with self._state:
                while not self._ended and not self._has_to_say():
                    if not self._to_send.wait(tick if self._watches else None) and self._watches:
                        break
                if self._ended:
                    return
                ticks = not self._has_to_say()
                if self._unsent:  # else a rank joins or leaves, which others may wait for
                    self._to_send.wait(self._settings.cycle)
                    self._to_send.wait_for(self._is_worth_it, self._settings.cycle * (_CYCLES - 1))
            self._send_now(ticks)

    def _is_worth_it(self):
        return self._ended or not self._unsent or self._unsent_bytes >= _WORTH or self._says_leave is not None

    def _has_to_say(self):
        return bool(self._unsent) or self._says_join or self._says_leave is not None

    def _send_now(self, ticks=False):
        with self._sending:
            with self._state:
                unsent, self._unsent, self._unsent_bytes = self._unsent, [], 0
                joins, self._says_join = self._says_join, False
                leaves, self._says_leave = self._says_leave, None
                if self._ended or not (unsent or joins or ticks or leaves is not None):
                    return
            self._timeline.cycle()
            message = self._message(unsent)
            if joins:
                message["j"] = 1
            if leaves is not None:
                message["b"] = leaves
            try:
                self._outbox.send(0, json.dumps(message, separators=(",", ":")).encode())
            except AnelloError as error:
                self._fail(self._internal(error))

    def _message(self, unsent):
        with self._cache_lock:
            message, mask, whole = {"g": self._cache.generation}, 0, []
            for request in unsent:
                number = self._cache.number_of(request)
                if number is None:
                    whole.append(request.packed())
                else:
                    mask |= 1 << number
        if mask:
            message["c"] = f"{mask:x}"
        if whole:
            message["n"] = whole
        return message

    # ---- Receiving and carrying out

    def _execute(self):
        try:
            while True:
                response = self._next_response()
                if response and self._carry_out(response):
                    return
        except Exception as error:  # whatever it is, no rank may wait for this one
            failure = self._internal(error)
            self._fail(failure)
            if not (isinstance(error, AnelloError) and error.code == ABORTED):
                self._abort(str(failure))

    def _next_response(self):
        source, message = self._inbox.receive()
        if self._coordinator is None:
            return json.loads(message)
        self._coordinator.take(source, json.loads(message))
        for source, message in self._inbox.waiting():
            self._coordinator.take(source, json.loads(message))
        response = self._coordinator.ready()
        if response is not None:
            packed = json.dumps(response, separators=(",", ":")).encode()
            for rank in range(1, self._communicator.size):
                self._responses.send(rank, packed)
        self._watch()
        return response

    def _carry_out(self, response):
        """Whether this was the last."""
        agreed, refused, by_number = [], [], response.get("c", "0")
        with self._cache_lock:
            agreed += [(self._cache.requests[number], None) for number in numbers_in(int(by_number, 16))]
            for packed, rows, number, error in response.get("r", ()):
                request = Request.unpacked(packed)
                if number is not None:
                    self._cache.store(number, request)
                if error is None:
                    agreed.append((request, rows))
                else:
                    refused.append((request.key, error))
            if response.get("z"):
                self._cache.begin_generation()
        with self._state:
            entries = {request.key: self._entries.get(request.key) for request, _ in agreed}
        self._timeline.agreed(request for request, _ in agreed)
        self._refuse(refused)
        for done in self._execution.run(agreed, entries):
            self._complete(done)
        if "j" in response:
            entry, self._joining = self._joining, None
            entry.result = self._ranks[response["j"]]
            self._complete([entry])
        if "b" in response:
            place, why = response["b"]
            self._fail(HorovodInternalError(f"rank {self._ranks[place]} has left: {why}", self._ranks[place]))
            return True
        return False

    def _refuse(self, refused):
        done = []
        for key, text in refused:
            entry = self._entries.get(key)
            if entry is not None:
                entry.error = RuntimeError(text)
                done.append(entry)
        self._complete(done)

    def _complete(self, done):
        if not done:
            return
        with self._state:
            for entry in done:
                self._entries.pop(entry.key, None)
                entry.done = True
            self._done.notify_all()

    # ---- Failures

    def _internal(self, error):
        if isinstance(error, AnelloError):
            self.lost.update(self._ranks[place] for place in error.lost)
            rank = self._ranks[error.rank] if error.rank is not None and error.rank < len(self._ranks) else None
            part = self._ranks != list(range(len(self._ranks)))
            where = f"in the process set of ranks {self._ranks}, which are counted from 0 here: " if part else ""
            return HorovodInternalError(f"{where}{error}", rank)
        return HorovodInternalError(f"rank {self._rank} could not continue: {type(error).__name__}: {error}",
                                    self._rank)

    def _fail(self, failure):
        with self._state:
            if self.failure is None:
                self.failure = failure
            pending = list(self._entries.values()) + ([self._joining] if self._joining is not None else [])
            self._entries.clear()
            self._unsent.clear()
            self._joining = None
            for entry in pending:
                entry.error, entry.done = self.failure, True
            self._done.notify_all()

    def _watch(self):
        """Names the ranks for which tensors wait, and gives up if that was asked for."""
        limit = self._settings.stall_check
        waits = self._coordinator.is_waiting()
        if waits != self._watches:
            with self._state:
                self._watches = waits
                self._to_send.notify()
        if not limit or not waits:
            self._warned.clear()
            return
        late = self._coordinator.stalled(limit)
        for name, seconds, missing in late:
            if name not in self._warned:
                self._warned.add(name)
                print(
                    f"anello.horovod: tensor {name!r} has waited {seconds:.1f} s for ranks "
                    f"{', '.join(map(str, missing))}, which have not submitted it. They may be busy, may have ended "
                    f"their loop earlier (see join), or use another name or order of unnamed tensors",
                    file=sys.stderr, flush=True)
        end = self._settings.stall_shutdown
        if end and any(seconds >= end for _, seconds, _ in late):
            listed = "; ".join(f"{name!r} for ranks {', '.join(map(str, missing))}" for name, _, missing in late[:5])
            raise TimeoutError(
                f"tensors have waited for more than HOROVOD_STALL_SHUTDOWN_TIME_SECONDS={end:g}: {listed}")
