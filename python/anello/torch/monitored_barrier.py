"""torch.distributed.monitored_barrier: a barrier that names the missing ranks, in gloo's words, for which programs
search.

That function refuses every backend whose name is not gloo, so it is replaced by one that also knows this backend, in
processes that make such a group. A program that imported the old one by its name before that keeps it.
"""

import functools
import time
from datetime import timedelta

from torch import distributed as dist

from anello.errors import AnelloError
from anello.torch.posting import RECV, SEND

_refusing = dist.monitored_barrier


@functools.wraps(_refusing)
def monitored_barrier(group=dist.GroupMember.WORLD, timeout=None, wait_all_ranks=False):
    ours = dist.distributed_c10d._get_default_group() if group is None else group
    if getattr(ours, "getBackendName", None) is None or type(ours).__module__ != "anello.torch.process_group":
        return _refusing(group, timeout, wait_all_ranks)
    if isinstance(timeout, (int, float)):
        timeout = timedelta(seconds=timeout)
    ours.monitored_barrier(timeout, wait_all_ranks)


def replace():
    dist.monitored_barrier = dist.distributed_c10d.monitored_barrier = monitored_barrier


class _Meeting:
    """One call: empty messages between rank 0 and each other rank."""

    def __init__(self, group, here_i_am, go_on, seconds):
        self.group, self.here_i_am, self.go_on = group, here_i_am, go_on
        self.seconds, self.end = seconds, time.monotonic() + seconds

    def start(self, kind, peer, tag):
        call = self.group._call(kind, None, None, 0, 0, None, 0, peer)
        call.tag = tag
        call.timeout_ms = round(self.seconds * 2000) + 2000  # later than ours, which gives the better text
        return self.group._start("monitored_barrier", [call], ())

    def came(self, operation, grace=0):
        """Whether it has ended well before our deadline."""
        try:
            operation.complete(max(self.end + grace - time.monotonic(), 0))
        except TimeoutError:
            return False
        if operation.error is not None:
            raise operation.error
        return True


def run(group, timeout, wait_all_ranks, here_i_am, go_on):
    seconds = group._seconds() if timeout is None else timeout.total_seconds()
    meeting = _Meeting(group, here_i_am, go_on, seconds)
    if group._rank == 0:
        _lead(meeting, wait_all_ranks)
    else:
        _follow(meeting)


def _lead(meeting, wait_all_ranks):
    group = meeting.group
    awaited = {peer: meeting.start(RECV, peer, meeting.here_i_am) for peer in range(1, group._size)}
    missing, in_time = [], True
    for peer, operation in awaited.items():
        in_time = in_time and time.monotonic() < meeting.end
        if not meeting.came(operation):
            missing.append(peer)
            if not wait_all_ranks:
                break
    if missing:
        who = ("Ranks " if len(missing) > 1 else "Rank ") + ", ".join(map(str, missing))
        text = f"{who} failed to pass monitoredBarrier in {meeting.seconds} s"
        if not in_time and not wait_all_ranks:
            text = f"Rank 0 timed out in monitoredBarrier after {meeting.seconds} s, and then did not wait for rank {missing[0]}"
        text = f"{group._doing('monitored_barrier')}: {text}"
        group._told = True
        group._library.anello_comm_abort(group._comm, text.encode())
        for operation in awaited.values():
            operation.complete()
        raise AnelloError(text, rank=missing[0], lost=missing)
    for operation in [meeting.start(SEND, peer, meeting.go_on) for peer in awaited]:
        if not meeting.came(operation):
            raise AnelloError(f"{group._doing('monitored_barrier')}: not complete after {meeting.seconds} s")


def _follow(meeting):
    group = meeting.group
    came = (f"Rank {group._rank} successfully reached monitoredBarrier, but received errors while waiting for send/recv from "
            f"rank 0")
    try:
        answer = meeting.start(RECV, 0, meeting.go_on)
        meeting.came(meeting.start(SEND, 0, meeting.here_i_am))
        if meeting.came(answer, grace=1):  # rank 0 knows the missing ranks, and reports them when its time is over
            return
    except AnelloError as error:
        raise AnelloError(f"{came}: {error.text}", error.code, error.name, error.rank, error.lost) from None
    raise AnelloError(f"{came}: it did not let this rank go on within {meeting.seconds} s", rank=0)
