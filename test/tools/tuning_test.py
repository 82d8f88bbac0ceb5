"""ANELLO_TUNING: whose table counts, for whom, and what is said of one that cannot be used.

Arguments: anellorun, libanello.so. As a rank (with --rank): prints what the library would do.
"""

import ctypes
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ANELLORUN = LIBRARY = ""


class Call(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("kind", ctypes.c_int), ("dtype", ctypes.c_int), ("op", ctypes.c_int),
                ("peer", ctypes.c_int), ("tag", ctypes.c_int), ("sendbuf", ctypes.c_void_p), ("recvbuf", ctypes.c_void_p),
                ("count", ctypes.c_size_t), ("timeout_ms", ctypes.c_int64), ("pointers", ctypes.c_void_p * 4),
                ("algorithm", ctypes.c_char_p), ("label", ctypes.c_char_p)]


def be_a_rank(library):
    # Each rank's own table, where it has one: TUNING_1 for rank 1.
    own = os.environ.get(f"TUNING_{os.environ['RANK']}")
    if own is not None:
        os.environ["ANELLO_TUNING"] = own
    api = ctypes.CDLL(library)
    api.anello_last_error.restype = ctypes.c_char_p
    comm = ctypes.c_void_p()
    if api.anello_comm_create(None, ctypes.byref(comm)) != 0:
        print(json.dumps({"error": api.anello_last_error(None).decode()}))
        return
    call = Call(size=ctypes.sizeof(Call), count=1 << 20)
    text, length = ctypes.create_string_buffer(1 << 16), ctypes.c_size_t()
    assert api.anello_explain(comm, ctypes.byref(call), text, len(text), ctypes.byref(length)) == 0
    print(text.value.decode())
    api.anello_comm_destroy(comm)


def table_of(*rules, machine="this one"):
    return "\n".join(["anello-tuning 1", f"machine {machine}", *rules]) + "\n"


TREE = "allreduce memory none any 0 any tree auto"


class Tuning(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        # As the library names it: said by the log line about a table of another machine.
        self.machine = ""
        path = self.write("probe", table_of(TREE, machine="none"))
        _, told = self.run_ranks(TUNING_0=path)
        self.machine = told.split("this is ")[1].split(") and is not used")[0]

    def write(self, name, text):
        path = pathlib.Path(self.directory.name, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return str(path)

    def run_ranks(self, **more):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ANELLO_")}
        environment |= {"XDG_CONFIG_HOME": self.directory.name, "HOME": self.directory.name, "OMP_NUM_THREADS": "1"} | more
        ended = subprocess.run([ANELLORUN, "-np", "3", sys.executable, "-B", __file__, "--rank", LIBRARY], env=environment,
                               capture_output=True, text=True, timeout=60, check=False)
        return [json.loads(line) for line in ended.stdout.splitlines()], ended.stderr

    def assert_tree(self, told, path):
        self.assertEqual([each["algorithm"] for each in told], ["tree"] * 3)
        for each in told:
            self.assertEqual((each["rule"]["measured"], each["rule"]["number"]), (True, 3))
            self.assertIn(f"Line 3 of {path}", each["why"])

    def test_the_machine_is_named(self):
        self.assertRegex(self.machine, r"^\S.*, \d+ processors$")

    def test_rank_0s_table_counts_for_all_ranks(self):
        path = self.write("table", table_of(TREE, machine=self.machine))
        told, log = self.run_ranks(TUNING_0=path, TUNING_1="/no/such/table")
        self.assert_tree(told, path)
        self.assertNotIn("tuning", log)

    def test_another_ranks_table_does_not_count(self):
        path = self.write("table", table_of(TREE, machine=self.machine))
        told, _ = self.run_ranks(TUNING_1=path, TUNING_2=path)
        self.assertEqual([each["algorithm"] for each in told], ["staged"] * 3)
        self.assertEqual([each["rule"]["measured"] for each in told], [False] * 3)

    def test_a_table_at_its_usual_place_is_found_and_can_be_left_out(self):
        path = self.write("anello/tuning", table_of(TREE, machine=self.machine))
        self.assert_tree(self.run_ranks()[0], path)
        told, _ = self.run_ranks(ANELLO_TUNING="none")
        self.assertEqual([each["algorithm"] for each in told], ["staged"] * 3)
        home = self.write("home/.config/anello/tuning", table_of(TREE, machine=self.machine))
        self.assert_tree(self.run_ranks(XDG_CONFIG_HOME="", HOME=f"{self.directory.name}/home")[0], home)

    def test_a_table_of_another_machine_is_not_used_and_told_of(self):
        path = self.write("table", table_of(TREE, machine="an abacus, 10 processors"))
        told, log = self.run_ranks(ANELLO_TUNING=path)
        self.assertEqual([each["algorithm"] for each in told], ["staged"] * 3)
        self.assertEqual(log.count("was measured on another machine (an abacus, 10 processors; this is"), 1, log)

    def test_a_bad_line_is_an_error_on_all_ranks_that_names_it(self):
        path = self.write("table", table_of(TREE, "allreduce memory none any 0 any rign auto", machine=self.machine))
        told, _ = self.run_ranks(TUNING_0=path)
        self.assertEqual(len(told), 3)
        for each in told:
            self.assertIn(f"{path}, line 4: allreduce has no algorithm 'rign'", each["error"])

    def test_a_table_that_cannot_be_read_is_an_error_on_all_ranks(self):
        for path, why in [("/no/such/table", "No such file"), (self.directory.name, "Is a directory"),
                          (self.write("long", table_of(TREE) + "#" * 40_000), "more than 32768 bytes")]:
            told, _ = self.run_ranks(TUNING_0=path)
            self.assertEqual(len(told), 3)
            for each in told:
                self.assertIn(path, each["error"])
                self.assertIn(why, each["error"])


if __name__ == "__main__":
    if sys.argv[1] == "--rank":
        be_a_rank(sys.argv[2])
    else:
        ANELLORUN, LIBRARY = sys.argv[1:3]
        unittest.main(argv=[sys.argv[0], "-v"])
