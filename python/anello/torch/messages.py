"""Messages between two ranks, and the barrier that consists of them."""

import ctypes

from anello.communicator import ANY_SOURCE, MAX_TAG
from anello.torch import elements, monitored_barrier
from anello.torch.operation import Operation
from anello.torch.posting import RECV, SEND, message, one, put_back

# No program is likely to use these.
_HERE_I_AM, _GO_ON = MAX_TAG - 1, MAX_TAG


class Messages:
    @message("send")
    def send(self, tensors, dest, tag=0):
        tensor = one(tensors)
        memory = elements.to_read(tensor)
        dtype, each = elements.of_movement(memory)
        if not memory.is_cpu:
            return self._enqueue_message(SEND, memory, memory.numel() * each, dtype, dest, tag, tensor, None,
                                         f"send to rank {dest}")
        return self._work(self._message(SEND, memory, memory.numel() * each, dtype, dest, tag, tensor, None,
                                        f"send to rank {dest}"))

    @message("recv")
    def recv(self, tensors, source, tag=0):
        return self._receive(one(tensors), source, tag, f"recv from rank {source}")

    @message("recvAnySource")
    def recv_anysource(self, tensors, tag=0):
        return self._receive(one(tensors), ANY_SOURCE, tag, "recv from any rank")

    def _receive(self, tensor, source, tag, what):
        memory = elements.to_write(tensor)
        dtype, each = elements.of_movement(memory)
        count, finish = memory.numel() * each, put_back(tensor, memory)
        if not memory.is_cpu:
            if source != ANY_SOURCE:
                return self._enqueue_message(RECV, memory, count, dtype, source, tag, tensor, finish, what)
            # The host asks for its source, so the host receives it.
            self._streams.current(memory.device).synchronize()
        return self._work(self._message(RECV, memory, count, dtype, source, tag, tensor, finish, what))

    def _message(self, kind, memory, count, dtype, peer, tag, tensor, finish, what):
        request = ctypes.c_void_p()
        # Each message is a separate lane for the completion thread.
        operation = Operation(self, [request], (memory, tensor), finish, [tensor], what, lane=("message", id(request)))
        if kind == RECV:
            operation.expected = count
        address = memory.data_ptr()
        if self._timeout_ms:
            call = self._call(kind, address, address, count, dtype, None, 0, peer)
            call.tag = tag
            code = self._library.anello_post(self._comm, call, request)
        else:
            start = self._library.anello_isend if kind == SEND else self._library.anello_irecv
            code = start(address, count, dtype, peer, tag, self._comm, request)
        if code:
            operation.refused()
            raise self._error(code, what)
        return operation

    def monitored_barrier(self, timeout=None, wait_all_ranks=False):
        """Rank 0 hears from all ranks within the timeout, or raises an error that names the missing ranks (with
        wait_all_ranks all of them, else the first); then the others also fail."""
        monitored_barrier.run(self, timeout, wait_all_ranks, _HERE_I_AM, _GO_ON)
