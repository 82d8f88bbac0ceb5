"""Ctrl-C at any place inside a wait, and at any other where an operation changes hands: it raises there, and whoever asks for the
outcome afterwards gets it. One rank, which sends messages to itself."""

import dis
import functools
import gc
import itertools
import sys
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist

import anello.torch.collectives
import anello.torch.completions
import anello.torch.messages
import anello.torch.operation
import anello.torch.posting
import anello.torch.work
from case import Ranks, main

FILES = {module.__file__ for module in (anello.torch.collectives, anello.torch.completions, anello.torch.messages,
                                        anello.torch.operation, anello.torch.posting, anello.torch.work)}
# After these, and where a function begins, Python looks for signals.
LOOKS = {"CALL", "CALL_FUNCTION_EX", "CALL_KW", "JUMP_BACKWARD"}
SOON = 10


@functools.cache
def opcodes(code):
    return {each.offset: each.opname for each in dis.get_instructions(code)}


class Interrupt:
    """Raises KeyboardInterrupt at the place of that number, of this thread's, inside the package's files."""

    def __init__(self, number):
        self.left, self.fired, self._before = number, False, {}

    def __enter__(self):
        sys.settrace(self._enter)

    def __exit__(self, *_):
        sys.settrace(None)
        self._before.clear()

    def _place(self):
        if self.left == 0:
            self.fired = True
            self.left -= 1
            raise KeyboardInterrupt
        self.left -= 1

    def _enter(self, frame, event, _):
        if frame.f_code.co_filename not in FILES:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        self._place()
        return self._step

    def _step(self, frame, event, _):
        if event == "opcode":
            before, self._before[frame] = self._before.get(frame), opcodes(frame.f_code)[frame.f_lasti]
            if before in LOOKS:
                self._place()
        return self._step


def elsewhere(act):
    """What act returns or raises in another thread, which may not take long."""
    ends = []

    def run():
        try:
            ends.append((act(), None))
        except Exception as error:
            ends.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(SOON)
    if not ends:
        raise AssertionError(f"not complete after {SOON} s")
    if ends[0][1] is not None:
        raise ends[0][1]
    return ends[0][0]


class Interrupts(Ranks):
    def setUp(self):
        super().setUp()
        self.group = dist.group.WORLD
        self.numbers = itertools.count(1)
        self.receive(1).get_future().wait()  # the completion thread is there

    def send(self, value, count=3):
        self.sent = self.group.send([torch.full((count,), float(value))], self.rank, 5)

    def receive(self, value, count=3):
        """A receive of a message that is on its way; the memory is not contiguous, so that a copy is the end of it."""
        self.send(value, count)
        return self.receive_later()

    def receive_later(self, _=None):
        self.tensor = torch.zeros(3, 2)[:, 0]
        return self.group.recv([self.tensor], self.rank, 5)

    def everywhere(self, act, check, make=None):
        """Interrupts act at its first place, and checks, then at its second, and so on."""
        for number in itertools.count():
            value = next(self.numbers)
            work = (make or self.receive)(value)
            interrupt = Interrupt(number)
            with self.subTest(place=number):
                try:
                    with interrupt:
                        act(work)
                except (KeyboardInterrupt, RuntimeError):
                    pass
                check(work, value)
            self.sent.wait()
            if not interrupt.fired:
                break
        self.assertGreater(number, 5)

    def arrived(self, work, value):
        self.assertTrue(elsewhere(work.wait))
        self.assertEqual(self.tensor.tolist(), [value] * 3)
        self.assertEqual(elsewhere(work.source_rank), self.rank)
        self.assertIs(elsewhere(work.get_future().wait)[0], self.tensor)

    def future_comes(self, work, value):
        try:
            self.assertIs(elsewhere(lambda: work.get_future().wait())[0], self.tensor)
        except RuntimeError as error:  # what comes while a future gets its value is that
            self.assertIn("KeyboardInterrupt", str(error))
        self.assertTrue(elsewhere(work.wait))
        self.assertEqual(self.tensor.tolist(), [value] * 3)

    def test_wait(self):
        self.everywhere(lambda work: work.wait(), self.arrived)

    def test_wait_and_then_a_future(self):
        self.everywhere(lambda work: work.wait(), self.future_comes)

    def test_wait_with_a_timeout(self):
        self.everywhere(lambda work: work.wait(dist.default_pg_timeout), self.arrived)

    def test_wait_with_a_timeout_that_ends(self):
        def check(work, value):
            self.send(value)
            self.arrived(work, value)

        self.everywhere(lambda work: work.wait(timedelta(microseconds=50)), check, self.receive_later)

    def test_is_completed(self):
        self.everywhere(lambda work: work.is_completed(), self.arrived)

    def test_get_future_of_what_is_there(self):
        self.everywhere(lambda work: work.get_future(), self.future_comes)

    def test_get_future_of_what_comes_later(self):
        def check(work, value):
            self.send(value)
            self.future_comes(work, value)

        self.everywhere(lambda work: work.get_future(), check, self.receive_later)

    def test_is_completed_of_what_comes_later(self):
        def check(work, value):
            self.send(value)
            self.arrived(work, value)

        self.everywhere(lambda work: self.assertFalse(work.is_completed()), check, self.receive_later)

    def test_wait_of_what_a_future_waits_for(self):
        def act(work):
            work._operation.bases.append(future)  # as another thread that asks while this one waits
            work.wait()

        def check(work, value):
            nonlocal not_begun
            if work._operation.owner is None:
                not_begun += 1
                elsewhere(work.wait)
            deadline = time.monotonic() + SOON
            while not future.done():
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.001)
            self.arrived(work, value)

        def make(value):
            nonlocal future
            future = torch.futures.Future()
            return self.receive(value)

        future, not_begun = None, 0
        self.everywhere(act, check, make)
        self.assertLess(not_begun, 4)

    def test_a_failure_is_told_afterwards(self):
        def check(work, _):
            for _ in range(2):
                with self.assertRaisesRegex(RuntimeError, "elements"):
                    elsewhere(work.wait)

        self.everywhere(lambda work: work.wait(), check, lambda value: self.receive(value, count=2))

    def test_a_receive_that_is_being_posted(self):
        """What the library writes to stays in memory, whoever has let go of it."""
        length = 1000
        for timeout in (None, timedelta(seconds=SOON)):
            group = dist.new_group(timeout=timeout)
            if timeout is not None:
                group.set_timeout(timeout / 2)  # another way into the library
            for number in itertools.count():
                tensor = torch.zeros(length)
                interrupt = Interrupt(number)
                try:
                    with interrupt:
                        group.recv([tensor], self.rank, number)
                except KeyboardInterrupt:
                    pass
                del tensor
                gc.collect()
                others = [torch.full((length,), 7.0) for _ in range(3)]  # of the same size, so that memory that was free is used
                group.send([torch.ones(length)], self.rank, number).wait()
                with self.subTest(place=number):
                    for other in others:
                        self.same(other, torch.full((length,), 7.0))
                if not interrupt.fired:
                    break
            self.assertGreater(number, 10)

    def test_collectives_that_are_being_posted(self):
        calls = {"all_reduce": lambda tensor: dist.all_reduce(tensor, async_op=True),
                 "broadcast": lambda tensor: dist.broadcast(tensor, self.rank, async_op=True),
                 "all_gather": lambda tensor: dist.all_gather([tensor], tensor + 1, async_op=True)}
        for name, call in calls.items():
            for number in itertools.count():
                tensor = torch.full((4, 3), 5.0).t()  # with a copy at its end
                interrupt = Interrupt(number)
                try:
                    with interrupt:
                        call(tensor)
                except KeyboardInterrupt:
                    pass
                with self.subTest(call=name, place=number):
                    dist.barrier()  # the group is in order
                    done = torch.ones(3)
                    self.same(elsewhere(dist.all_reduce(done, async_op=True).get_future().wait)[0], torch.ones(3))
                    self.assertIn(tensor.unique().tolist(), [[5], [6]])
                if not interrupt.fired:
                    break
            self.assertGreater(number, 10)

    def test_a_dropped_work(self):
        def check(_, value):
            deadline = time.monotonic() + SOON
            while self.tensor.tolist() != [value] * 3:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.001)

        def act(holder):
            holder.clear()

        before, sys.unraisablehook = sys.unraisablehook, lambda _: None
        try:
            self.everywhere(act, check, lambda value: [self.receive(value)])
        finally:
            sys.unraisablehook = before


if __name__ == "__main__":
    main()
