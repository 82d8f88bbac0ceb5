"""Lanes over verbs, in a virtual machine with two software adapters (tools/rdma-vm). Ranks that use one adapter each are
as two hosts: their packets go over the cable between the adapters.

Arguments: the repository; the build folder; unittest's own, such as -k WORD, which leaves the other scripts out.
VERBS_LONG=1: the tests that take minutes, instead of the others. VERBS_MACHINE: the folder of the machine in the build
folder, one for each kernel; "vm" if it is not set. One that ends with "siw" has soft iWARP instead of soft RoCE.

To start the machine takes longer than most scripts. So each class starts it once, and its scripts run there one after
another, in the order of their tests. Each has its own limits, processes and /dev/shm; the network is everyone's, and a
script that breaks it comes last.
"""

import functools
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

REPOSITORY, BUILD = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
RDMA_VM = REPOSITORY / "tools/rdma-vm"
DEADLINE, SCRIPT_DEADLINE = 3400, 1700
LONG = os.environ.get("VERBS_LONG") == "1"
MACHINE = BUILD / os.environ.get("VERBS_MACHINE", "vm")
BY_DAY = not LONG and "VERBS_MACHINE" not in os.environ
IWARP = MACHINE.name.endswith("siw")
DRIVER = "siw" if IWARP else "rxe"

# Runs FOLDER/*.sh, and leaves the status and the seconds of each. One that was killed, at its deadline or otherwise, has 137.
RUN_SCRIPTS = f"""
for script in "$1"/*.sh; do
  begin=$(date +%s)
  timeout -s KILL {SCRIPT_DEADLINE} unshare --mount --pid --fork --kill-child --mount-proc \\
      sh -c 'mount -t tmpfs -o mode=1777 shm /dev/shm && sh "$1"' sh "$script" < /dev/null > "$script.out" 2>&1
  echo $? $(($(date +%s) - begin)) > "$script.status"
done
"""

# perf RANKS ARGUMENTS..: odd ranks use the other adapter.
PERF = """set -e
export ANELLO_TRANSPORT=verbs ANELLO_LOG=info
perf() {
  ranks=$1
  shift
  tools/anellorun -np $ranks sh -c 'ANELLO_VERBS_DEVICES=$DRIVER$((RANK % 2)) exec bench/anello-perf --no-ceilings "$@"' sh "$@" 2>&1
}
"""
COLLECTIVES = ("allreduce", "broadcast", "reduce", "allgather", "gather", "scatter", "alltoall", "reduce_scatter", "scan",
               "barrier", "sendrecv")


def script(text, **environment):
    """For a test: its second argument is the output of this shell script, which has run in the build folder with status 0."""
    environment.update({"DRIVER": DRIVER, "VERBS_OVER_IWARP": int(IWARP)})
    settings = "".join(f"export {name}={shlex.quote(str(value))}\n" for name, value in environment.items())
    if IWARP:
        settings += "ulimit -l unlimited\n"  # siw holds root to it, too

    def runs_before(test):
        @functools.wraps(test)
        def judged(self):
            test(self, self.output_of(test.__name__))
        judged.script = settings + text
        return judged
    return runs_before


class InMachine(unittest.TestCase):
    ran = None  # (status, output) of each script that has ended, by its test's name
    log = ""    # the machine's own

    def setUp(self):
        lacking = subprocess.run([RDMA_VM, "--machine", MACHINE, "--why-not"], capture_output=True, text=True,
                                 check=True).stdout.strip()
        if lacking:
            self.skipTest(lacking)
        if self.ran is None:
            type(self).ran = {}
            self.run_scripts()

    @classmethod
    def run_scripts(cls):
        asked = unittest.defaultTestLoader.getTestCaseNames(cls)  # which -k has narrowed
        tests = [name for name, test in vars(cls).items() if name in asked and hasattr(test, "script") and not hasattr(test, "__unittest_skip__")]
        with tempfile.TemporaryDirectory() as directory:
            files = {test: pathlib.Path(directory, f"{number:02}.sh") for number, test in enumerate(tests)}
            for test, file in files.items():
                file.write_text(getattr(cls, test).script)
            machine = subprocess.run([RDMA_VM, "--machine", MACHINE, "--deadline", str(DEADLINE), "--write", directory,
                                      "sh", "-c", RUN_SCRIPTS, "sh", directory], cwd=BUILD, stdout=subprocess.PIPE,
                                     stderr=subprocess.STDOUT, text=True, timeout=DEADLINE + 60, check=False)
            cls.log = f"status {machine.returncode} of the machine\n{machine.stdout}"
            for test, file in files.items():
                status = pathlib.Path(f"{file}.status")
                if status.exists():
                    code, seconds = (int(number) for number in status.read_text().split())
                    cls.ran[test] = code, pathlib.Path(f"{file}.out").read_text(errors="replace")
                    print(f"{seconds:5} s in the machine: {test}", file=sys.stderr)

    def output_of(self, test):
        if test not in self.ran:
            self.fail(f"its script did not end: {self.log[-6000:]}")
        status, output = self.ran[test]
        self.assertEqual(status, 0, output[-6000:])
        return output


def collectives(ranks, arguments, names=COLLECTIVES):
    return f"for collective in {' '.join(names)}; do perf {ranks} --collective $collective {arguments}; done\n"


def contract(cases="[adapter]", **environment):
    """The test of a lane's contract, which takes links down and up again."""
    return script(f"test/transports/verbs_test '{cases}' -d yes", **environment)


@unittest.skipIf(LONG, "runs by day")
class Verbs(InMachine):
    # By day over two rails only.
    @contract(**{"cases": "[adapter]~[long]", "SOAK_FRAMES": 60, "SOAK_WITHDRAWALS": 4, "RAIL_LINKS": 1} if BY_DAY else
              {"cases": "[adapter]~[roce]"} if IWARP else {})
    def test_the_lane_keeps_its_contract(self, output):
        self.assertIn("All tests passed", output)

    @unittest.skipIf(IWARP, "siw cannot register the fake device's memory at other addresses")
    @script("LD_LIBRARY_PATH=test/support test/transports/verbs_device_test '[adapter]'")
    def test_an_adapter_gets_what_lies_in_the_memory_of_a_fake_device(self, output):
        self.assertIn("All tests passed", output)

    # Each job takes 3 s, most of it to start.
    @script(PERF + collectives(2, "-b 4K -n 1", ("allreduce", "broadcast", "alltoall", "sendrecv") if BY_DAY else COLLECTIVES))
    def test_collectives_are_right_between_two_hosts(self, output):
        self.assertIn("over verbs", output)
        self.assertNotRegex(output, r"over (tcp|shm|inproc)")

    @script("""set -e
ANELLO_TRANSPORT=verbs tools/anellorun -np 2 bench/anello-perf -b 4K -n 1 --json /dev/shm/report.json 2>&1
cat /dev/shm/report.json""")
    def test_a_benchmark_has_the_adapters_bare_figures_beside_its_own(self, output):
        self.assertRegex(output, r"# this host now: .*, RDMA WRITE within " + DRIVER + r"0 port 1 [1-9]\d*\.\d us one way and 0\.\d\d GB/s\n")
        best = json.loads(output[output.index("\n{\n"):])["ceilings"]
        self.assertEqual(best["rdma_port"], f"{DRIVER}0 port 1")
        self.assertGreater(best["rdma_latency_us"], 1)
        # An emulated adapter moves some 50 MB/s.
        self.assertTrue(0 < best["rdma_gbps"] < 1, best)

    # Each cable is down until both ends have said that they go on without it, and the job ends once they use both again.
    @script("""export ANELLO_TRANSPORT=verbs ANELLO_LOG=info ANELLO_VERBS_TIMEOUT=16 ANELLO_VERBS_RETRY=6
export PYTHONPATH=$SOURCES/python ANELLO_LIBRARY=lib/api/libanello.so.0
wait_for() {  # or for the end of the job
  while [ ! -e /dev/shm/over ] && ! grep -q "$1" /dev/shm/out; do sleep 0.1; done
}
(wait_for "first call"
for link in 0 2; do
  for change in "down goes on without" "up takes"; do
    ip link set roce$link ${change%% *}
    for end in $link $((link + 1)); do wait_for "the lane to rank . ${change#* } $DRIVER$end"; done
  done
done
touch /dev/shm/enough) &
timeout 300 tools/anellorun -np 2 sh -c 'ANELLO_VERBS_DEVICES=$DRIVER$RANK,$DRIVER$((RANK + 2)) exec python3 -B "$@"' sh \
    $SOURCES/test/verbs/calls_until_told.py /dev/shm/enough > /dev/shm/out 2>&1
status=$?
touch /dev/shm/over
wait
cat /dev/shm/out
exit $status""", SOURCES=REPOSITORY)
    def test_a_job_loses_nothing_when_one_of_two_links_goes_down_and_up(self, output):
        for words in ("goes on without", "takes"):
            for rail in range(4):
                self.assertRegex(output, f"the lane to rank [01] {words} {DRIVER}{rail} port 1")
        self.assertEqual(len(re.findall(r"rank [01]: \d+ right sums", output)), 2, output)

    @script("test/collectives/collectives_test '[.adapter]'")
    def test_long_messages_between_registered_buffers_go_by_the_adapter(self, output):
        self.assertIn("All tests passed", output)

    @script("""set -e
cp -L bench/anello-perf lib/api/libanello.so.0 /dev/shm  # the build folder may be closed to other users
chmod a+rw /dev/infiniband/*; ulimit -l 2048
ANELLO_VERBS_DEVICES=${DRIVER}0 ANELLO_TRANSPORT=verbs tools/anellorun -np 2 setpriv --reuid 1 --clear-groups --inh-caps=-all \\
    env LD_LIBRARY_PATH=/dev/shm /dev/shm/anello-perf --no-ceilings --collective sendrecv --memory mapped -b 4M -n 1""")
    def test_a_limit_of_locked_memory_is_told_and_messages_are_copied(self, output):
        self.assertRegex(output, f"verbs copies messages in memory of .* KiB: {DRIVER}0 port 1: locking .* KiB more is not "
                                 "allowed: .* 2048 KiB in all.*limits.conf")

    @script("""set -e
ANELLO_VERBS_DEVICES==${DRIVER}0 tools/anello-info --json
cp -L bench/anello-perf lib/api/libanello.so.0 /dev/shm
chmod a+rw /dev/infiniband/*; ulimit -l 512
export ANELLO_VERBS_DEVICES=${DRIVER}0,${DRIVER}1
! ANELLO_TRANSPORT=verbs tools/anellorun -np 2 setpriv --reuid 1 --clear-groups --inh-caps=-all \\
    env LD_LIBRARY_PATH=/dev/shm /dev/shm/anello-perf --no-ceilings -b 4 -n 1
ip link set roce0 down
ip link set roce1 down  # the first has taken it down, too, but siw does not notice
tools/anello-info --json""")
    def test_what_is_not_usable_is_told_with_the_reason(self, output):
        reports = [json.loads(report) for report in re.findall(r"^\{\n.*?^\}$", output, re.M | re.S)]
        self.assertEqual(len(reports), 2, output)
        self.assertEqual(reports[0]["transports"]["verbs"]["value"], "usable")
        self.assertEqual(reports[0]["rdma"][f"{DRIVER}0 port 1"]["value"],
                         "iWARP, 10.77.0.1" if IWARP else "RoCE, 10.77.0.1, MTU 4096")
        self.assertIn("left out by ANELLO_VERBS_DEVICES", reports[0]["rdma"][f"{DRIVER}1 port 1"]["remark"])
        self.assertRegex(output, f"{DRIVER}0 port 1: locking 512 KiB more is not allowed: .* 512 KiB in all.*limits.conf")
        self.assertEqual(reports[1]["transports"]["verbs"]["value"], "not usable")
        self.assertIn(f"{DRIVER}0 port 1: the link is not active", reports[1]["transports"]["verbs"]["remark"])


@unittest.skipUnless(IWARP, "of iWARP alone")
class Iwarp(InMachine):
    @script(PERF + """perf 2 -b 64K -n 10
perf 4 -b 4K -n 1 --collective alltoall
perf 2 -b 256K -n 5 --collective sendrecv --memory mapped""")
    def test_ranks_of_two_hosts_get_right_results(self, output):
        self.assertIn("over verbs", output)
        self.assertNotRegex(output, r"over (tcp|shm|inproc)")
        self.assertEqual(output.count("Out of bounds values : 0 OK"), 3)

    @script("""mount --bind /dev/null $(readlink -f /usr/lib/*/librdmacm.so.1)
tools/anello-info --json""")
    def test_without_its_library_a_port_is_not_usable_and_the_reason_is_told(self, output):
        report = json.loads(output)
        self.assertEqual(report["transports"]["verbs"]["value"], "not usable")
        self.assertRegex(report["rdma"]["siw0 port 1"]["remark"], "iWARP takes librdmacm, .*librdmacm1")

    @script("test/failures/failures_test '[.adapter]'", FAILURE_KILLS=6, FAILURE_SLOWNESS=20)
    def test_a_killed_rank_is_named(self, output):
        self.assertIn("All tests passed", output)


@unittest.skipUnless(LONG, "takes minutes: tools/test --nightly runs it")
class LongVerbs(InMachine):
    @contract()
    def test_the_lane_keeps_its_contract_for_many_frames(self, output):
        self.assertIn("All tests passed", output)

    @script(PERF + "".join(collectives(ranks, "-b 4 -e 64K -f 128 -n 1") for ranks in (2, 4, 8)))
    def test_every_collective_is_right_between_two_hosts_with_several_ranks_each(self, output):
        self.assertNotRegex(output, r"over (tcp|shm|inproc)")
        self.assertEqual(output.count("Out of bounds values : 0 OK"), 3 * len(COLLECTIVES))

    @script(PERF + collectives(2, "-b 3M -n 1"))
    def test_long_messages_go_round_the_ring(self, output):
        self.assertIn("over verbs", output)

    @script("test/failures/failures_test '[.adapter]'", FAILURE_KILLS=18, FAILURE_SLOWNESS=20)
    def test_a_killed_rank_is_named(self, output):
        self.assertIn("All tests passed", output)

    @script("test/model/model_test --transport verbs --programs 40 --timeout 120000")
    def test_random_programs_are_as_their_model(self, _):
        pass

    @script(PERF + """for i in 0 1; do tc qdisc add dev roce$i root netem loss 1%; done
perf 2 -b 64K -n 10
perf 2 -b 256K -n 5 --collective sendrecv --memory mapped
tc -s qdisc show dev roce0
for i in 0 1; do tc qdisc del dev roce$i root; done""")
    def test_packets_that_are_lost_are_sent_again(self, output):
        self.assertIn("over verbs", output)
        self.assertRegex(output, r"dropped [1-9]")

    @script(PERF + """export ANELLO_VERBS_TIMEOUT=14
(while ! grep -q algbw /dev/shm/out; do sleep 0.1; done; ip link set roce1 down) &
! perf 2 -b 64K -n 1000000 > /dev/shm/out
cat /dev/shm/out""")
    def test_a_job_whose_link_goes_down_ends_and_says_so(self, output):
        self.assertIn("ANELLO_ERR_PEER_LOST", output)
        reason = "(this adapter could not send|the link of this rank's port is down).*rxe[01] port 1"
        self.assertRegex(output, f"ends: {reason}")
        self.assertRegex(output, f"rank [01] .host .* cannot be reached any more: {reason}")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
