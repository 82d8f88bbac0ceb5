#!/usr/bin/env python3
"""What anellorun takes from the habits of other launchers, and its report of a failure. Argument: the program."""

import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from launcher import Launcher

ANELLORUN = os.path.abspath(sys.argv.pop())
PROCESSORS = len(os.sched_getaffinity(0))
CLEAN = {name: value for name, value in os.environ.items() if name != "ANELLO_SECRET_FILE"}
NO_THREADS = {name: value for name, value in CLEAN.items() if name != "OMP_NUM_THREADS"}


class Options(unittest.TestCase):
    def run_with(self, *arguments, **more):
        launcher = Launcher(ANELLORUN, arguments, env=more.pop("env", CLEAN) | more.pop("variables", {}), **more)
        self.addCleanup(launcher.close)
        return launcher.end()

    def lines(self, *arguments, **more):
        code, out, err = self.run_with(*arguments, **more)
        self.assertEqual((code, err), (0, ""))
        return sorted(out.splitlines())

    # -- other spellings ------------------------------------------------------------------------------------------

    def test_torchruns_command_lines(self):
        script = ["sh", "-c", "echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $GROUP_RANK $MASTER_ADDR"]
        here = ["0 0 2 2 0 127.0.0.1", "1 1 2 2 0 127.0.0.1"]
        for options in (["--standalone", "--nproc-per-node", "2"], ["--nproc_per_node=2", "--nnodes=1"],
                        ["--nnodes=1:1", "--nproc-per-node=2", "--rdzv-backend=c10d", "--rdzv_id", "x", "--tee", "3"],
                        ["--nproc-per-node=2", "--rdzv-endpoint=127.0.0.1:29401", "--max_restarts=0"]):
            with self.subTest(options=options):
                self.assertEqual(self.lines(*options, *script), here)

    def test_underscores_stand_for_dashes(self):
        out = self.run_with("--nproc_per_node=1", "--dry_run", "--bind_to", "none", "--keep_going", "--rdzv_id", "a_b", "--no_python",
                            "prog", "--its_own")
        self.assertEqual((out[0], out[2]), (0, ""))
        self.assertIn("rank 0: prog --its_own\n", out[1])

    def test_a_python_module_and_a_python_script(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "script.py").write_text("import sys; print(sys.argv[1:])")
            for option in ("-m", "--module"):
                self.assertEqual(self.lines("-np", "1", option, "script", "-x", "b", cwd=folder), ["['-x', 'b']"])
            for word in ("script.py", "./script.py", f"{folder}/script.py"):
                code, _, err = self.run_with("-np", "1", word, cwd=folder)
                self.assertIn(code, (126, 127))
                self.assertTrue(err.endswith(f"; is it a script? Then write: anellorun .. python3 {word}\n"), err)

    def test_addresses_of_ipv6(self):
        for options, host, port in [(["--rdzv-endpoint=::1"], "::1", 29500), (["--rdzv-endpoint=[::1]:29400"], "::1", 29400),
                                    (["--rdzv-endpoint=[fd66::1]"], "fd66::1", 29500), (["--master-addr=[::1]"], "::1", 29500),
                                    (["--master-addr", "fd66::1", "--master-port", "7"], "fd66::1", 7),
                                    (["--rdzv-endpoint=[fe80::1%none]:9"], "fe80::1%none", 9), (["--rdzv-endpoint=fe80::1%x"], "fe80::1%x", 29500),
                                    (["--rdzv-endpoint=alpha:9"], "alpha", 9), (["--rdzv-endpoint=10.1.2.3"], "10.1.2.3", 29500)]:
            with self.subTest(options=options):
                self.assertEqual(self.lines("-np", "1", *options, "sh", "-c", "echo $MASTER_ADDR $MASTER_PORT"), [f"{host} {port}"])
                shown = f"[{host}]" if ":" in host else host
                self.assertIn(f"meeting place: {shown}:{port}\n", self.run_with("-np", "1", *options, "--dry-run", "true")[1])
        for word in ("[::1", "[::1]2", "::1]:2", "[alpha]:2", "a:b:2", ":29400", "fd66::x", "[::1]:", "[::1]:70000", "alpha:x"):
            with self.subTest(word=word):
                code, _, err = self.run_with("-np", "1", "--rdzv-endpoint", word, "true")
                self.assertEqual(code, 2, err)
                self.assertRegex(err, r"--rdzv-endpoint: '.*' is not (HOST, HOST:PORT or \[IPv6 address\]:PORT|a whole number from 0 to 65534)")

    def test_the_meeting_place_is_on_an_allowed_port(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            one = taken.getsockname()[1]
            allowed = range(one, one + 20) if one < 60000 else range(one - 19, one + 1)
            two = f"{allowed[0]}-{allowed[-1]}"
            for options, variables in [(["-x", f"ANELLO_PORT_RANGE={two}"], {}), ([], {"ANELLO_PORT_RANGE": two}),
                                       (["-x", f"ANELLO_PORT_RANGE={two}"], {"ANELLO_PORT_RANGE": f"{one}-{one}"}),
                                       (["--hosts", "localhost:2", "-x", f"ANELLO_PORT_RANGE={two}"], {})]:
                with self.subTest(options=options, variables=variables):
                    out = self.lines("-np", "2", *options, "sh", "-c", "echo $MASTER_PORT", variables=variables)
                    self.assertEqual(len(set(out)), 1)
                    self.assertIn(int(out[0]), set(allowed) - {one})
            code, _, err = self.run_with("-np", "2", "true", variables={"ANELLO_PORT_RANGE": f"{one}-{one}"})
            self.assertEqual((code, err), (126, f"anellorun: port {one} is in use\n"))
        code, _, err = self.run_with("-np", "2", "true", variables={"ANELLO_PORT_RANGE": "9-8"})
        self.assertEqual((code, err), (126, "anellorun: ANELLO_PORT_RANGE=9-8 is not LOW-HIGH, from 1 to 65535\n"))
        code, _, err = self.run_with("--hosts", "localhost:1,127.0.0.1:1", "-x", "ANELLO_INTERFACE=none", "true")
        self.assertEqual(code, 126)
        self.assertIn("ANELLO_INTERFACE=none: no interface has this name or address", err)

    def test_a_port_of_several_hosts_is_at_an_address_that_all_reach(self):
        self.assertIn("meeting place: found when the job starts, at port 29999\n",
                      self.run_with("--hosts", "alpha,beta", "--master-port", "29999", "--dry-run", "true")[1])
        for _ in range(20):
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
            # The loopback comes last in what an agent offers; without ANELLO_INTERFACE it would be another address.
            code, out, err = self.run_with("--hosts", "localhost:1,127.0.0.1:1", "--master-port", str(port),
                                           "-x", "ANELLO_INTERFACE=127.0.0.1", "sh", "-c", "echo $MASTER_ADDR $MASTER_PORT")
            if code != 126 or f"port {port} is in use" not in err:  # else another program has taken it meanwhile
                break
        self.assertEqual((code, out, err), (0, f"127.0.0.1 {port}\n" * 2, ""))

    def test_port_0_is_any_free_one(self):
        port, = self.lines("--nnodes=1", "--nproc-per-node=1", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "sh", "-c",
                           "echo $MASTER_PORT")
        self.assertNotIn(port, ("", "0", "29500"))

    def test_each_node_has_its_own_launcher(self):
        with tempfile.TemporaryDirectory() as folder:
            secret = pathlib.Path(folder, "secret")
            secret.write_bytes(os.urandom(32))
            secret.chmod(0o600)
            for rank, shown in [(0, ["0 0 4 2 0 a:7 unset", "1 1 4 2 0 a:7 unset"]), (1, ["2 0 4 2 1 a:7 unset", "3 1 4 2 1 a:7 unset"])]:
                self.assertEqual(self.lines(
                    "--nnodes=2", f"--node_rank={rank}", "--nproc_per_node=2", "--master_addr=a", "--master_port=7", "sh", "-c",
                    "echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $GROUP_RANK $MASTER_ADDR:$MASTER_PORT ${ANELLO_SECRET_FD-unset}",
                    variables={"ANELLO_SECRET_FILE": str(secret)}), shown)

    def test_auto_counts(self):
        for word in ("auto", "cpu"):
            if word == "auto" and pathlib.Path("/dev/nvidia0").exists():
                continue
            out = self.lines("-np", word, "sh", "-c", "echo $WORLD_SIZE")
            self.assertEqual(len(out), int(out[0]))
            self.assertLessEqual(len(out), PROCESSORS)
        if not pathlib.Path("/dev/nvidia0").exists():
            code, _, err = self.run_with("-np", "gpu", "true")
            self.assertEqual(code, 2)
            self.assertIn("no NVIDIA GPU", err)

    def test_auto_counts_no_other_machine(self):
        self.assertEqual(self.hosts("--hosts", "alpha:2,beta:2", "-np", "auto"), [("alpha", 2), ("beta", 2)])
        if not pathlib.Path("/dev/nvidia0").exists():
            count = int(self.lines("-np", "cpu", "sh", "-c", "echo $WORLD_SIZE")[0])
            self.assertEqual(self.hosts("--hosts", "localhost", "--nproc-per-node", "auto"), [("localhost", count)])
            self.assertEqual(self.hosts("--hosts", "localhost", "-np", "auto"), [("localhost", count)])
        for options in (["--nproc-per-node", "auto"], ["--nproc-per-node", "cpu"], ["-np", "auto"], ["-np", "cpu"]):
            code, _, err = self.run_with("--hosts", "localhost,beta", *options, "true")
            self.assertEqual(code, 2, err)
            self.assertIn("which may differ from host beta; write a number", err)

    def test_several_programs(self):
        out = self.lines("-np", "1", "-x", "W=one", "sh", "-c", "echo $RANK $W $WORLD_SIZE a :", ":", "-n", "2", "-x", "W=two", "sh", "-c",
                         "echo $RANK $W $WORLD_SIZE b")
        self.assertEqual(out, ["0 one 3 a :", "1 two 3 b", "2 two 3 b"])
        self.assertEqual(self.lines("-np", "1", "echo", "A", ":", "-x", "B=2", "-np", "1", "sh", "-c", "echo $B"), ["2", "A"])
        self.assertEqual(self.lines("-n1", "echo", "A", ":", "-n1", "echo", "B"), ["A", "B"])
        for words in (": x :", ": -nope", ": -h", ": --version", ": --", ": -"):
            self.assertEqual(self.lines("-np", "1", "printf", "%s ", *words.split()), [words + " "])

    def test_what_contradicts_itself_is_refused(self):
        for arguments, said in [
                (["--nnodes", "2", "--nproc-per-node", "1", "true"], "--master-addr"),
                (["--nnodes", "2", "--nproc-per-node", "1", "--master-addr", "a", "true"], "ANELLO_SECRET_FILE"),
                (["--nnodes", "1:4", "--nproc-per-node", "1", "true"], "cannot change"),
                (["--nnodes", "2", "-np", "2", "true"], "--nproc-per-node"),
                (["-np", "2", "--nproc-per-node", "2", "true"], "one of them"),
                (["--nnodes", "2", "--hosts", "a", "--nproc-per-node", "1", "true"], "--hosts"),
                (["--hosts", "a", "--hostfile", "f", "true"], "give one"),
                (["--hosts", "a", "--doctor", "true"], "--doctor: runs no program; leave out 'true'"),
                (["--hosts", "a", "--doctor", ":", "-np", "1", "true"], "--doctor: runs no program; leave out ': -np'"),
                (["-np", "1", "true", ":", "-np", "1"], "a program to start"),
                (["-np", "1", "true", ":", "-x", "A=1", "true"], "-np: is needed for each program"),
                (["-np", "1", "true", ":", "--timeout", "5", "-np", "1", "true"], "--timeout: is for the whole job; write it before"),
                (["-np", "1", "true", ":", "-np", "1", "--hosts=a", "true"], "--hosts: is for the whole job; write it before"),
                (["--standalone", "--nnodes=2", "--nproc-per-node=1", "true"], "--standalone: means one host, but --nnodes says more"),
                (["--standalone", "--hosts=a,b", "true"], "--standalone: means one host, but --hosts says more"),
                (["--nnodes=2", "--nproc-per-node=1", "--rdzv-endpoint=a:0", "true"], "port 0 means any free one"),
                (["--hosts=a,b", "--rdzv-endpoint=a:0", "true"], "port 0 means any free one"),
                (["true"], "-np N is required")]:
            with self.subTest(arguments=arguments):
                code, _, err = self.run_with(*arguments)
                self.assertEqual(code, 2, err)
                self.assertIn(said, err)

    # -- processors -----------------------------------------------------------------------------------------------

    def test_bindings_are_printed_and_kept(self):
        for unit in ("core", "socket", "numa"):
            code, out, err = self.run_with("-np", "2", "--bind-to", unit, "--tag-output", "sh", "-c",
                                           "grep Cpus_allowed_list /proc/self/status; echo threads $OMP_NUM_THREADS")
            self.assertEqual(code, 0)
            for rank in range(2):
                mask = re.search(rf"^\[{rank}\] Cpus_allowed_list:\s+(\S+)$", out, re.M)[1]
                self.assertRegex(err, rf"anellorun: rank {rank} \(host \S+\) runs on processors? {re.escape(mask)}\n")

    def test_ranks_that_share_a_core_are_noted_once(self):
        for ranks, said in [(1, 0), (PROCESSORS + 2, 1)]:
            code, _, err = self.run_with("-np", str(ranks), "--bind-to", "core", "true")
            self.assertEqual((code, err.count("has more ranks than cores, so ranks share cores\n")), (0, said), err)

    def test_threads_share_the_processors_and_their_number_is_said_once(self):
        for ranks, options in [(1, []), (2, []), (PROCESSORS + 1, []), (PROCESSORS + 1, ["--oversubscribe"]), (2, ["--hosts", "localhost:2"])]:
            with self.subTest(ranks=ranks, options=options):
                code, out, err = self.run_with("-np", str(ranks), *options, "sh", "-c", "echo $OMP_NUM_THREADS", env=NO_THREADS)
                self.assertEqual((code, len(out.split())), (0, ranks))
                said = re.fullmatch(r"anellorun: each rank has OMP_NUM_THREADS=(\d+): (\d+) processors? for (\d+) ranks( on host localhost)?"
                                    r"(, which take turns \(--oversubscribe says that this is meant\))?\n", err)
                self.assertEqual(said is not None, ranks > 1, err)
                if said:
                    threads, processors = int(said[1]), int(said[2])
                    self.assertEqual((set(out.split()), threads), ({said[1]}, max(1, processors // ranks)))
                    self.assertEqual((said[4] is not None, said[5] is not None), ("--hosts" in options, ranks > processors and "--oversubscribe" not in options))
        for options in ([], ["--hosts", "localhost:2"]):
            set_here = ["-np", "2", *options, "sh", "-c", "echo $OMP_NUM_THREADS"]
            self.assertEqual(self.lines(*set_here, variables={"OMP_NUM_THREADS": "7"}), ["7", "7"])
            self.assertEqual(self.lines("-x", "OMP_NUM_THREADS=7", *set_here, env=NO_THREADS), ["7", "7"])

    def test_a_dry_run_says_the_threads_that_are_set(self):
        show = ["sh", "-c", "echo $RANK $OMP_NUM_THREADS"]
        for options, env, origin in [
                (["-np", "1", "--bind-to", "core"], NO_THREADS, ""), (["-np", "2"], NO_THREADS, ""),
                (["-np", "2"], NO_THREADS | {"OMP_NUM_THREADS": "5"}, r" \(from this shell\)"),
                (["-np", "2", "-x", "OMP_NUM_THREADS=7"], NO_THREADS, r" \(from -x\)")]:
            with self.subTest(options=options):
                said = self.run_with(*options, "--dry-run", *show, env=env)[1]
                value = re.search(rf"OMP_NUM_THREADS=(\d+) for each rank{origin}$", said, re.M)[1]
                out = self.run_with(*options, *show, env=env)[1]
                self.assertEqual({line.split()[1] for line in out.splitlines()}, {value})
        programs = ["-np", "1", "-x", "OMP_NUM_THREADS=77", *show, ":", "-np", "1", *show]
        out = self.run_with("--dry-run", *programs, env=NO_THREADS)[1]
        value = str(max(1, int(re.search(r"processors: (\d+)$", out, re.M)[1]) // 2))
        self.assertEqual(re.findall(r"rank (\d): .* OMP_NUM_THREADS=(\d+)", out), [("0", "77"), ("1", value)])
        _, out, err = self.run_with(*programs, env=NO_THREADS)
        self.assertEqual(sorted(out.splitlines()), ["0 77", f"1 {value}"])
        self.assertRegex(err, rf"^anellorun: rank 1 has OMP_NUM_THREADS={value}: \d+ processors? for 2 ranks(, which .*)?\n$")

    def test_a_dry_run_says_what_would_run_and_runs_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            code, out, err = self.run_with("--hosts", "alpha:2,localhost:1", "--dry-run", "--log-dir", f"{folder}/logs", "touch", f"{folder}/it")
            self.assertEqual((code, err, os.listdir(folder)), (0, "", []))
        self.assertIn("host alpha: ranks 0 to 1 of 3\n  started by: ssh ", out)
        self.assertIn(f"rank 1: touch {folder}/it\n", out)
        self.assertIn("host localhost: ranks 2 to 2 of 3\n  processors: ", out)

    # -- lists of hosts -------------------------------------------------------------------------------------------

    def hosts(self, *options):
        """The hosts of a dry run, each with its number of ranks."""
        code, out, err = self.run_with(*options, "--dry-run", "true")
        self.assertEqual((code, err), (0, ""))
        rows = re.findall(r"^(?:host (\S+)|this host): ranks (\d+) to (\d+) of (\d+)$", out, re.M)
        return [(host, int(last) - int(first) + 1) for host, first, last, _ in rows]

    def test_a_list_stands_for_all_its_hosts(self):
        nodes = [("node01", 2), ("node02", 2), ("node03", 2)]
        self.assertEqual(self.hosts("--hosts", "node[01-03]:2,big:4"), [*nodes, ("big", 4)])
        self.assertEqual(self.hosts("--hosts", "big:4,n[1,3-4]-ib"), [("big", 4), ("n1-ib", 1), ("n3-ib", 1), ("n4-ib", 1)])
        self.assertEqual(self.hosts("-H", "me@r[1-2]n[1-2]:1,"), [(f"me@r{rack}n{node}", 1) for rack in (1, 2) for node in (1, 2)])
        self.assertEqual(self.hosts("--hosts", "n[1-2],n2:2"), [("n1", 1), ("n2", 3)])
        self.assertEqual(self.hosts("--hosts", "[fd00::1]:2,fd00::2,me@[fd00::3]"), [("fd00::1", 2), ("fd00::2", 1), ("me@fd00::3", 1)])
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("node[01-02] slots=2  # the old ones\nnode03:2\nbig slots=4 max_slots=8\n")
            file.flush()
            self.assertEqual(self.hosts("--hostfile", file.name), [*nodes, ("big", 4)])
        self.assertEqual(len(self.hosts("--hosts", "n[0001-4096]")), 4096)

    def test_mistakes_in_a_list_are_named(self):
        for hosts, said in [("node[1-", "'node[1-': a bracket is not closed"), ("node[3-1]", "'3-1' is no number"),
                            ("a,node[1-x]:2", "'1-x' is no number"), ("node1]", "a bracket is closed that is not open"),
                            ("n[1-4097]", "more than 4096 hosts"), ("n[1-4096],m", "more than 4096 hosts"),
                            ("n[1-999999999]", "more than 4096 hosts"), ("n[1-2]:0", "from 1 to 4096"), ("n[1-2]:x", "from 1 to 4096"),
                            ("n:4096,n:1", "more than 4096 ranks on host 'n'"), ("a,,b", "names no host"), ("n[1-2];x", "names no host")]:
            with self.subTest(hosts=hosts), tempfile.NamedTemporaryFile("w") as file:
                code, _, err = self.run_with("--hosts", hosts, "--dry-run", "true")
                self.assertEqual(code, 2, err)
                self.assertIn(said, err)
                if ",," in hosts:
                    continue
                file.write("first\n" + hosts.replace(",", "\n") + "\n" if "[" not in hosts else "first\n" + hosts + "\n")
                file.flush()
                code, _, err = self.run_with("--hostfile", file.name, "--dry-run", "true")
                self.assertEqual(code, 2, err)
                self.assertRegex(err, r"line [23] of the host file")

    # -- output ---------------------------------------------------------------------------------------------------

    def test_log_files(self):
        script = ["sh", "-c", "echo out $RANK; echo err $RANK >&2; printf rest"]
        for tee in ([], ["--tee"], ["--tee", "3"]):
            with self.subTest(tee=tee), tempfile.TemporaryDirectory() as folder:
                code, out, err = self.run_with("-np", "2", "--log-dir", f"{folder}/new/logs", *tee, *script)
                self.assertEqual(code, 0)
                for rank in range(2):
                    text = pathlib.Path(folder, f"new/logs/rank-{rank}.log").read_text()
                    self.assertEqual(sorted(text.splitlines()), [f"err {rank}", f"out {rank}", "rest"])
                self.assertEqual((sorted(out.split("\n")), sorted(err.split("\n"))),
                                 (["", "out 0", "out 1", "rest", "rest"], ["", "err 0", "err 1"]) if tee else ([""], [""]))
        code, _, err = self.run_with("-np", "1", "--log-dir", "/dev/null/x", "true")
        self.assertEqual(code, 2)
        self.assertIn("--log-dir", err)

    def test_the_first_failure_and_its_last_lines_come_last(self):
        script = ("if [ $RANK = 1 ]; then for i in $(seq 30); do echo line $i >&2; done; echo ValueError: it >&2; exit 3; fi; "
                  "trap 'for i in $(seq 100); do echo noise; echo noise >&2; done; exit 9' TERM; while :; do sleep 0.05; done")
        for options in ([], ["--log-dir", tempfile.mkdtemp()]):
            code, _, err = self.run_with("-np", "3", *options, "sh", "-c", script)
            self.assertEqual(code, 3)
            lines = err.splitlines()
            self.assertRegex(lines[-11], r"^anellorun: the first failure: rank 1 \(host \S+, pid \d+\) ended with exit code 3; its last lines:$")
            self.assertEqual(lines[-10:], [f"    line {i}" for i in range(22, 31)] + ["    ValueError: it"])

    # -- restarts -------------------------------------------------------------------------------------------------

    def test_a_job_that_fails_is_started_anew(self):
        # Rank 0 fails once the last rank has spoken: half a second later it is ended.
        script = ('echo "$TORCHELASTIC_RESTART_COUNT $ANELLO_JOB"; > $ANELLO_JOB.$RANK; [ $RANK = 0 ] || exec sleep 60; '
                  "until [ -e $ANELLO_JOB.$((WORLD_SIZE - 1)) ]; do sleep 0.01; done; [ $TORCHELASTIC_RESTART_COUNT = 2 ]")
        with tempfile.TemporaryDirectory() as folder:
            code, out, err = self.run_with("-np", "2", "--max-restarts", "1", "sh", "-c", script, cwd=folder)
        self.assertEqual(code, 1)
        self.assertEqual([line.split()[0] for line in sorted(out.splitlines())], ["0", "0", "1", "1"])
        self.assertEqual(len({line.split()[1] for line in out.splitlines()}), 2, "each start is a job of its own")
        self.assertIn("anellorun: starting the job anew (1 of 1)", err)
        with tempfile.TemporaryDirectory() as folder:
            code, out, err = self.run_with("-np", "1", "--max-restarts", "5", "sh", "-c", script, cwd=folder)
        self.assertEqual((code, [line.split()[0] for line in out.splitlines()]), (0, ["0", "1", "2"]))

    def test_a_log_file_keeps_what_each_start_has_printed(self):
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(2):  # the second job begins the file anew
                code, _, _ = self.run_with("-np", "1", "--max-restarts", "2", "--log-dir", folder, "sh", "-c",
                                           "printf try$TORCHELASTIC_RESTART_COUNT; exit 3")
                self.assertEqual(code, 3)
                again = "\nanellorun: starting the job anew ({} of 2)\n"
                self.assertEqual(pathlib.Path(folder, "rank-0.log").read_text(), f"try0{again.format(1)}try1{again.format(2)}try2")

    def test_a_job_that_the_user_ends_is_not_started_anew(self):
        code, _, err = self.run_with("-np", "2", "--max-restarts", "5", "--timeout", "0.3", "sleep", "60")
        self.assertEqual(code, 124)
        self.assertNotIn("anew", err)
        launcher = Launcher(ANELLORUN, ["-np", "1", "--max-restarts", "5", "sh", "-c", "echo ready; exec sleep 60"])
        self.addCleanup(launcher.close)
        launcher.line()
        launcher.process.terminate()
        self.assertEqual(launcher.end()[0], 143)

    def test_the_timeout_counts_from_the_first_start(self):
        code, _, err = self.run_with("-np", "1", "--timeout", "0.6", "--max-restarts", "8", "sh", "-c", "sleep 0.2; exit 3")
        self.assertEqual(code, 124, err)
        self.assertIn("0.6 s have passed (--timeout)", err)

    def test_the_timeout_counts_before_a_host_has_answered(self):
        with tempfile.TemporaryDirectory() as folder:
            hangs = pathlib.Path(folder, "shell")
            hangs.write_text("#!/bin/sh\nexec sleep 300\n")
            hangs.chmod(0o755)
            code, _, err = self.run_with("--hosts", "nohost:1", "--timeout", "0.3", "true", variables={"ANELLO_SSH": str(hangs)})
        self.assertEqual((code, err), (124, "anellorun: 0.3 s have passed (--timeout) before the ranks could start\n"))

    def test_256_ranks_start_and_end_soon(self):
        begin = time.monotonic()
        code, out, err = self.run_with("-np", "256", "sh", "-c", "echo $RANK")
        self.assertEqual((code, sorted(map(int, out.split())), err), (0, list(range(256)), ""))
        self.assertLess(time.monotonic() - begin, 30)


if __name__ == "__main__":
    unittest.main(verbosity=2)
