#!/usr/bin/env python3
"""anello_explain tells what a call comes to: bytes as closed forms have them and as anello-plan simulates them.
Arguments: libanello.so, anello-plan."""

import ctypes
import json
import os
import subprocess
import sys
import threading
import unittest

OK, ARGUMENT, TRUNCATE = 0, 1, 12
KINDS = {"allreduce": 0, "broadcast": 1, "allgather": 2, "reduce_scatter": 3, "barrier": 4, "send": 5, "recv": 6, "reduce": 7,
         "gather": 8, "scatter": 9, "alltoall": 10, "scan": 11, "exscan": 12, "allgatherv": 13, "alltoallv": 17}


class Call(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("kind", ctypes.c_int), ("dtype", ctypes.c_int), ("op", ctypes.c_int),
                ("peer", ctypes.c_int), ("tag", ctypes.c_int), ("sendbuf", ctypes.c_void_p), ("recvbuf", ctypes.c_void_p),
                ("count", ctypes.c_size_t), ("timeout_ms", ctypes.c_int64), ("sendcounts", ctypes.c_void_p),
                ("sdispls", ctypes.c_void_p), ("recvcounts", ctypes.c_void_p), ("rdispls", ctypes.c_void_p),
                ("algorithm", ctypes.c_char_p), ("label", ctypes.c_char_p)]


def call_of(kind, count, **more):
    return Call(size=ctypes.sizeof(Call), kind=KINDS[kind], count=count, **more)  # float32, sum


class Explain(unittest.TestCase):
    library = plan = None

    def setUp(self):
        self.api = ctypes.CDLL(self.library)
        self.api.anello_last_error.restype = ctypes.c_char_p
        self.comms = []

    def tearDown(self):
        for comm in self.comms:
            self.api.anello_comm_destroy(comm)

    def ranks(self, size):
        made = (ctypes.c_void_p * size)()
        self.assertEqual(self.api.anello_comm_create_all(size, made), OK)
        comms = [ctypes.c_void_p(handle) for handle in made]
        self.comms += comms
        return comms

    def explain(self, comm, call):
        length = ctypes.c_size_t()
        result = self.api.anello_explain(comm, ctypes.byref(call), None, 0, ctypes.byref(length))
        self.assertEqual(result, OK, self.api.anello_last_error(comm))
        text = ctypes.create_string_buffer(length.value + 1)
        self.assertEqual(self.api.anello_explain(comm, ctypes.byref(call), text, len(text), ctypes.byref(length)), OK)
        self.assertEqual(len(text.value), length.value)
        return json.loads(text.value)

    def test_bytes_are_those_of_the_closed_forms(self):
        size, n = 4, 1 << 20
        comms = self.ranks(size)
        part = n * 4 // size
        per_rank = {  # algorithm: what each rank sends, receives and reduces
            ("allreduce", "ring"): (n, [2 * 3 * part] * 4, [2 * 3 * part] * 4, [3 * part] * 4),
            ("allreduce", "halving"): (n, [2 * 3 * part] * 4, [2 * 3 * part] * 4, [3 * part] * 4),
            ("allreduce", "pairwise"): (n, [2 * 3 * part] * 4, [2 * 3 * part] * 4, [3 * part] * 4),
            ("allreduce", "doubling"): (n, [2 * n * 4] * 4, [2 * n * 4] * 4, [2 * n * 4] * 4),
            ("broadcast", "tree"): (n, [8 * n, 0, 4 * n, 0], [0, 4 * n, 4 * n, 4 * n], [0] * 4),
            ("allgather", "ring"): (n, [3 * n * 4] * 4, [3 * n * 4] * 4, [0] * 4),
            ("reduce_scatter", "ring"): (n, [3 * n * 4] * 4, [3 * n * 4] * 4, [3 * n * 4] * 4),
            ("alltoall", "pairwise"): (n, [3 * n * 4] * 4, [3 * n * 4] * 4, [0] * 4),
            ("gather", "direct"): (n, [0, 4 * n, 4 * n, 4 * n], [3 * n * 4, 0, 0, 0], [0] * 4),
            ("reduce", "chain"): (n, None, None, None),
            ("allreduce", "exchange"): (2, [8] * 4, [24] * 4, [24] * 4),
            ("alltoall", "exchange"): (2, [32] * 4, [24] * 4, [0] * 4),
            ("scan", "exchange"): (2, [8] * 4, [0, 8, 16, 24], [0, 8, 16, 24]),
            ("exscan", "exchange"): (2, [8] * 4, [0, 8, 16, 24], [0, 0, 8, 16]),
        }
        for (kind, algorithm), (count, sent, received, reduced) in per_rank.items():
            told = [self.explain(comm, call_of(kind, count, algorithm=algorithm.encode())) for comm in comms]
            with self.subTest(kind=kind, algorithm=algorithm):
                self.assertEqual([each["algorithm"] for each in told], [algorithm] * size)
                self.assertEqual([each["rank"] for each in told], list(range(size)))
                self.assertEqual([each["board"] for each in told], [algorithm == "exchange"] * size)
                if sent is not None:
                    self.assertEqual([each["bytes"]["sent"] for each in told], sent)
                    self.assertEqual([each["bytes"]["received"] for each in told], received)
                    self.assertEqual([each["bytes"]["reduced"] for each in told], reduced)
                for each in told:
                    self.assertGreater(each["expected_seconds"], 0)
                    self.assertEqual(each["rule"], None)
                    self.assertEqual(each["why"], f"{algorithm} was asked for by the call.")
                    for peer in each["peers"]:
                        self.assertEqual(peer["transport"], "inproc")
                        back = [p for p in told[peer["rank"]]["peers"] if p["rank"] == each["rank"]][0]
                        self.assertEqual(peer["sent"], back["received"])

    def test_it_agrees_with_anello_plan(self):
        compared = 0
        for size in (2, 3, 5):
            comms = self.ranks(size)
            for kind in ("allreduce", "broadcast", "allgather", "reduce_scatter", "reduce", "gather", "scatter", "alltoall",
                         "scan", "exscan", "barrier"):
                for count in (0, 3, 1000, 30_000):
                    told = [self.explain(comm, call_of(kind, count)) for comm in comms]
                    chunk = str(max(told[0]["chunk_bytes"] // told[0]["element_bytes"], 1))
                    command = [self.plan, kind, "-r", str(size), "-c", str(count), "--chunk", chunk, "--no-staging", "--simulate", "--json"]
                    if size > len(os.sched_getaffinity(0)):
                        command.append("--oversubscribed")
                    planned = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
                    with self.subTest(kind=kind, size=size, count=count):
                        for each, schedule, traffic in zip(told, planned["schedules"],
                                                           planned["simulation"]["traffic_elements"]):
                            self.assertEqual(each["algorithm"], planned["algorithm"])
                            self.assertEqual(each["rule"]["algorithm"], planned["algorithm"])
                            self.assertEqual(each["steps"], len(schedule["steps"]))
                            self.assertAlmostEqual(each["expected_seconds"], planned["simulation"]["predicted_seconds"])
                            if not each["board"]:
                                self.assertEqual(each["bytes"]["sent"], traffic["sent"] * each["element_bytes"])
                                self.assertEqual(each["bytes"]["received"], traffic["received"] * each["element_bytes"])
                                self.assertEqual(each["messages"], traffic["messages"])
                                compared += 1
        self.assertGreater(compared, 100)

    def test_a_plan_that_was_used_is_told_to_be_there(self):
        comms = self.ranks(2)
        values = (ctypes.c_float * 30_000)()
        call = call_of("allreduce", 30_000)
        self.assertEqual([self.explain(comm, call)["cached"] for comm in comms], [False, False])
        self.assertEqual([self.explain(comm, call)["cached"] for comm in comms], [False, False], "explaining keeps nothing")
        out = [(ctypes.c_float * 30_000)() for _ in comms]
        def run(rank):
            self.api.anello_allreduce(values, out[rank], ctypes.c_size_t(30_000), 0, 0, comms[rank])
        threads = [threading.Thread(target=run, args=(rank,)) for rank in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([self.explain(comm, call)["cached"] for comm in comms], [True, True])
        self.assertFalse(self.explain(comms[0], call_of("allreduce", 30_000, algorithm=b"tree"))["cached"])

    def test_messages_and_counts_of_each_rank(self):
        comm = self.ranks(3)[1]
        told = self.explain(comm, call_of("send", 100, peer=2, tag=7, label=b'a "name"'))
        self.assertEqual(told, {"kind": "send", "label": "a ?name?", "rank": 1, "ranks": 3, "peer": 2, "tag": 7,
                                "bytes": {"sent": 400, "received": 0}, "transport": "inproc", "protocol": "eager", "taken": {"mapped": 0, "read": 0, "rdma": 0}})
        told = self.explain(comm, call_of("recv", 100_000, peer=-1, tag=-1))
        self.assertEqual((told["protocol"], told["bytes"]["received"], told["transport"]), ("rendezvous", 400_000, "inproc"))
        counts, displs = (ctypes.c_size_t * 3)(10, 20, 30), (ctypes.c_size_t * 3)(0, 10, 30)
        told = self.explain(comm, call_of("allgatherv", 20, recvcounts=ctypes.cast(counts, ctypes.c_void_p),
                                          rdispls=ctypes.cast(displs, ctypes.c_void_p)))
        self.assertEqual(told["bytes"]["sent"], 2 * 80)
        self.assertEqual(told["bytes"]["received"], 160)
        self.assertEqual(told["expected_seconds"], None)

    def test_ranks_bound_to_shared_processors_have_leaders(self):
        processors = sorted(os.sched_getaffinity(0))[:2]
        if len(processors) < 2:
            self.skipTest("needs two processors")
        for transport, algorithms in (("tcp", ["leaders", "leaders", "leaders"]),
                                      ("shm", ["exchange", "staged", "staged_leaders"])):
            ranks = []
            for rank in range(4):
                environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29541",
                               "ANELLO_JOB": f"explain-{os.getpid()}", "ANELLO_TRANSPORT": transport}
                command = [sys.executable, "-B", __file__, "--bound-to", str(processors[rank % 2]), self.library]
                ranks.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
            try:
                told = [rank.communicate(timeout=60)[0] for rank in ranks]
            finally:
                for rank in ranks:
                    rank.kill()
            with self.subTest(transport=transport):
                self.assertEqual([json.loads(each) for each in told], [algorithms] * 4)

    def test_what_is_wrong_is_refused_and_nothing_else_is_harmed(self):
        comm = self.ranks(2)[0]
        length = ctypes.c_size_t()
        call = call_of("allreduce", 30_000, algorithm=b"exchange")
        self.assertEqual(self.api.anello_explain(comm, ctypes.byref(call), None, 0, ctypes.byref(length)), ARGUMENT)
        self.assertIn(b"it may be direct, central, attach, ring, pairwise, doubling, halving, tree", self.api.anello_last_error(comm))
        call.algorithm = None
        text = ctypes.create_string_buffer(b"untouched")
        self.assertEqual(self.api.anello_explain(comm, ctypes.byref(call), text, len(text), ctypes.byref(length)), TRUNCATE)
        self.assertEqual(text.value, b"untouched")
        self.assertGreater(length.value, 300)
        self.assertEqual(self.api.anello_explain(comm, ctypes.byref(call), text, 5, None), ARGUMENT)
        self.assertEqual(self.api.anello_explain(comm, None, None, 0, ctypes.byref(length)), ARGUMENT)
        self.assertEqual(self.explain(comm, call)["algorithm"], "ring")


def tell_what_a_bound_rank_takes(processor, library):
    os.sched_setaffinity(0, {int(processor)})
    Explain.library = library
    case = Explain()
    case.setUp()
    comm = ctypes.c_void_p()
    if case.api.anello_comm_create(None, ctypes.byref(comm)) != OK:
        sys.exit(case.api.anello_last_error(None).decode())
    case.comms.append(comm)
    told = [case.explain(comm, call_of("allreduce", count))["algorithm"] for count in (2, 1 << 15, 1 << 20)]
    case.tearDown()
    print(json.dumps(told))


if __name__ == "__main__":
    if sys.argv[1] == "--bound-to":
        sys.exit(tell_what_a_bound_rank_takes(*sys.argv[2:]))
    Explain.library, Explain.plan = sys.argv[1:]
    unittest.main(argv=sys.argv[:1], verbosity=2)
