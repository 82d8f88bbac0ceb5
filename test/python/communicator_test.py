#!/usr/bin/env python3
"""The package without torch: communicators over buffers. communicator_test.py REPOSITORY ANELLORUN LIBRARY"""

import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

REPOSITORY, ANELLORUN, LIBRARY = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
DEADLINE = 40


class Communicators(unittest.TestCase):
    def ranks(self, size, text, succeeds=True):
        with tempfile.TemporaryDirectory() as scratch:
            program = pathlib.Path(scratch) / "program.py"
            program.write_text("import array, os, sys, anello\n" + textwrap.dedent(text))
            around = {**os.environ, "PYTHONPATH": str(REPOSITORY / "python"), "ANELLO_LIBRARY": str(LIBRARY),
                      "PYTHONDONTWRITEBYTECODE": "1"}
            ended = subprocess.run([ANELLORUN, "-np", str(size), sys.executable, program], env=around, timeout=DEADLINE,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if succeeds:
            self.assertEqual(ended.returncode, 0, ended.stdout)
        return ended.stdout

    def test_collectives(self):
        self.ranks(3, """
            with anello.Communicator.create() as comm:
                a = array.array("d", [1, comm.rank])
                comm.allreduce(a)
                assert a.tolist() == [3, 3], a
                out = array.array("d", [0, 0])
                comm.allreduce(a, "max", out=out)
                assert out == a
                b = bytearray([comm.rank] * 4)
                comm.broadcast(b, 2)
                assert b == bytes([2] * 4)
                everybodys = array.array("i", [0] * 3)
                comm.allgather(array.array("i", [comm.rank * 7]), everybodys)
                assert everybodys.tolist() == [0, 7, 14]
                part = array.array("i", [0])
                comm.reduce_scatter(everybodys, part)
                assert part[0] == 3 * 7 * comm.rank
                request = comm.iallreduce(a, "min")
                request.wait()
                assert request.test()
                comm.barrier()
                assert comm.transport(comm.rank) == "self" and comm.local_size == 3
        """)

    def test_ranks_of_one_process(self):
        self.ranks(1, """
            import threading
            comms = anello.Communicator.create_all(3)
            results = [array.array("i", [comm.rank + 1, 7]) for comm in comms]
            sums = array.array("i", [0, 0])

            def rank(comm):
                comm.allreduce(results[comm.rank])
                comm.reduce(results[comm.rank], "max", out=sums if comm.rank == 1 else None, root=1)
                comm.reduce(results[comm.rank], root=2)
                comm.close()

            threads = [threading.Thread(target=rank, args=(comm,)) for comm in comms]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert sums.tolist() == [6, 21], sums
            assert [each.tolist() for each in results] == [[6, 21], [6, 21], [18, 63]], results
            try:
                anello.Communicator.create_all(0)
            except anello.AnelloError as error:
                assert error.name == "ANELLO_ERR_ARGUMENT", error
            else:
                sys.exit("made no rank")
        """)

    def test_messages_tell_their_source_tag_and_count(self):
        self.ranks(2, """
            with anello.Communicator.create() as comm:
                if comm.rank == 0:
                    comm.send(b"hello", 1, tag=9)
                else:
                    b = bytearray(10)
                    came = comm.recv(b)
                    assert (came.source, came.tag, came.count, bytes(b[:5])) == (0, 9, 5, b"hello")
        """)

    def test_subgroups(self):
        self.ranks(3, """
            with anello.Communicator.create() as comm:
                half = comm.split(comm.rank % 2)
                a = array.array("q", [comm.rank])
                half.allreduce(a)
                assert a[0] == (2 if comm.rank % 2 == 0 else 1)
                half.close()
                if comm.rank != 1:
                    with comm.create_group([2, 0]) as pair:
                        assert pair.rank == (0 if comm.rank == 2 else 1)
                        pair.barrier()
                assert comm.split(None if comm.rank else 0) is None or comm.rank == 0
        """)

    def test_errors_have_code_rank_and_words(self):
        self.ranks(2, """
            comm = anello.Communicator.create()
            try:
                comm.allreduce(array.array("f", [1.0] * (comm.rank + 1)))
                comm.barrier()
            except anello.AnelloError as error:
                assert error.name == "ANELLO_ERR_MISMATCH" and error.code == 5, error
                import pickle
                copy = pickle.loads(pickle.dumps(error))
                assert (copy.code, copy.name, copy.rank, copy.lost, str(copy)) == (
                    error.code, error.name, error.rank, error.lost, str(error)) and "ANELLO_ERR_MISMATCH" in str(copy)
            else:
                raise SystemExit("silence")
            try:
                comm.broadcast(b"read only", 1 - comm.rank)
            except BufferError:
                pass
        """)

    def test_a_rank_that_is_gone_is_named(self):
        self.ranks(2, """
            comm = anello.Communicator.create()
            if comm.rank == 1:
                comm.barrier()
                os._exit(0)
            try:
                comm.barrier()  # in which this rank may learn of it already
                comm.allreduce(array.array("f", [1.0]))
            except anello.AnelloError as error:
                assert error.name == "ANELLO_ERR_PEER_LOST" and error.rank == 1 and error.lost == (1,), vars(error)
            else:
                raise SystemExit("silence")
        """)

    def test_buffers_that_do_not_fit_are_refused(self):
        self.ranks(1, """
            with anello.Communicator.create() as comm:
                for wrong in (lambda: comm.allreduce(b"constant"), lambda: comm.allreduce([1, 2]),
                              lambda: comm.allreduce(array.array("f", [1]), out=array.array("d", [1])),
                              lambda: comm.allreduce(array.array("f", [1]), op="mean"),
                              lambda: comm.allreduce(memoryview(bytearray(8))[::2])):
                    try:
                        wrong()
                    except (BufferError, TypeError, ValueError):
                        continue
                    raise SystemExit("taken")
                a = array.array("f", [1])
                held = comm.iallreduce(a)
                try:
                    a.append(2)  # its memory would move
                except BufferError:
                    held.wait()
                    held = None
                    a.append(2)
                else:
                    raise SystemExit("moved")
        """)

    def test_a_store_of_the_callers_and_what_it_raises(self):
        self.ranks(1, """
            class Store(dict):
                def set(self, key, value):
                    self[key] = value
                def get(self, key, seconds):
                    return dict.get(self, key)
            with anello.Communicator.create(0, 1, store=Store()) as comm:
                comm.barrier()
            class Broken(Store):
                def set(self, key, value):
                    raise OSError("the disk is full")
            try:
                anello.Communicator.create(0, 2, store=Broken(), timeout=5)
            except anello.AnelloError as error:
                assert "disk is full" in str(error.__cause__), error
            else:
                raise SystemExit("silence")
        """)

    def test_a_library_that_is_not_there(self):
        around = {**os.environ, "PYTHONPATH": str(REPOSITORY / "python"), "ANELLO_LIBRARY": "/nowhere/libanello.so.0"}
        ended = subprocess.run([sys.executable, "-B", "-c", "import anello; anello.version()"], env=around, timeout=DEADLINE,
                               capture_output=True, text=True, check=False)
        self.assertIn("/nowhere/libanello.so.0", ended.stderr)
        self.assertIn("LibraryError", ended.stderr)


if __name__ == "__main__":
    sys.argv[1:4] = []
    unittest.main(verbosity=2)
