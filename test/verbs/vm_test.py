"""Lanes over verbs, in a virtual machine with two software adapters (tools/rdma-vm). Ranks that use one adapter each are
as two hosts: their packets go over the cable between the adapters.

Arguments: the repository; the build folder. VERBS_LONG=1: the tests that take minutes, instead of the others. VERBS_MACHINE:
the folder of the machine in the build folder, one for each kernel; "vm" if it is not set.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

REPOSITORY, BUILD = (pathlib.Path(path) for path in sys.argv[1:3])
RDMA_VM = REPOSITORY / "tools/rdma-vm"
DEADLINE = 1800
LONG = os.environ.get("VERBS_LONG") == "1"
MACHINE = BUILD / os.environ.get("VERBS_MACHINE", "vm")

# perf RANKS ARGUMENTS..: odd ranks use the other adapter.
PERF = """set -e
export ANELLO_TRANSPORT=verbs ANELLO_LOG=info
perf() {
  ranks=$1
  shift
  tools/anellorun -np $ranks sh -c 'ANELLO_VERBS_DEVICES=rxe$((RANK % 2)) exec bench/anello-perf --no-ceilings "$@"' sh "$@" 2>&1
}
"""
COLLECTIVES = ("allreduce", "broadcast", "reduce", "allgather", "gather", "scatter", "alltoall", "reduce_scatter", "scan",
               "barrier", "sendrecv")


def in_machine(script, **environment):
    """A shell script's run in the machine, in the build folder."""
    settings = [f"{name}={value}" for name, value in environment.items()]
    return subprocess.run([RDMA_VM, "--machine", MACHINE, "--deadline", str(DEADLINE), "env", *settings, "sh", "-c", script],
                          cwd=BUILD, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=DEADLINE + 60,
                          check=False)


class InMachine(unittest.TestCase):
    def setUp(self):
        lacking = subprocess.run([RDMA_VM, "--machine", MACHINE, "--why-not"], capture_output=True, text=True,
                                 check=True).stdout.strip()
        if lacking:
            self.skipTest(lacking)

    def ran(self, script, **environment):
        ran = in_machine(script, **environment)
        self.assertEqual(ran.returncode, 0, ran.stdout[-6000:])
        return ran.stdout


def collectives(ranks, arguments):
    return f"for collective in {' '.join(COLLECTIVES)}; do perf {ranks} --collective $collective {arguments}; done\n"


@unittest.skipIf(LONG, "runs by day")
class Verbs(InMachine):
    def test_the_lane_keeps_its_contract(self):
        self.assertIn("All tests passed", self.ran("test/transports/verbs_test '[adapter]' -d yes"))

    def test_every_collective_is_right_between_two_hosts(self):
        output = self.ran(PERF + collectives(2, "-b 4K -n 1"))
        self.assertIn("over verbs", output)
        self.assertNotRegex(output, r"over (tcp|shm|inproc)")

    def test_a_benchmark_has_the_adapters_bare_figures_beside_its_own(self):
        output = self.ran("""set -e
ANELLO_TRANSPORT=verbs tools/anellorun -np 2 bench/anello-perf -b 4K -n 1 --json /dev/shm/report.json 2>&1
cat /dev/shm/report.json""")
        self.assertRegex(output, r"# this host now: .*, RDMA WRITE within rxe0 port 1 [1-9]\d*\.\d us one way and 0\.\d\d GB/s\n")
        best = json.loads(output[output.index("\n{\n"):])["ceilings"]
        self.assertEqual(best["rdma_port"], "rxe0 port 1")
        self.assertGreater(best["rdma_latency_us"], 1)
        # An emulated adapter moves some 50 MB/s.
        self.assertTrue(0 < best["rdma_gbps"] < 1, best)

    def test_long_messages_between_registered_buffers_go_by_the_adapter(self):
        self.assertIn("All tests passed", self.ran("test/collectives/collectives_test '[.adapter]'"))

    def test_a_limit_of_locked_memory_is_told_and_messages_are_copied(self):
        output = self.ran("""set -e
cp -L bench/anello-perf lib/api/libanello.so.0 /dev/shm  # the build folder may be closed to other users
chmod a+rw /dev/infiniband/*; ulimit -l 4096
ANELLO_TRANSPORT=verbs tools/anellorun -np 2 setpriv --reuid 1 --clear-groups --inh-caps=-all \\
    env LD_LIBRARY_PATH=/dev/shm /dev/shm/anello-perf --no-ceilings --collective sendrecv --memory mapped -b 8M -n 1""")
        self.assertRegex(output, "verbs copies messages in memory of .* KiB: rxe0 port 1: locking .* KiB more is not "
                                 "allowed: .* 4096 KiB in all.*limits.conf")

    def test_what_is_not_usable_is_told_with_the_reason(self):
        output = self.ran("""set -e
ANELLO_VERBS_DEVICES==rxe0 tools/anello-info --json
cp -L bench/anello-perf lib/api/libanello.so.0 /dev/shm  # the build folder may be closed to other users
chmod a+rw /dev/infiniband/*; ulimit -l 512
! ANELLO_TRANSPORT=verbs tools/anellorun -np 2 setpriv --reuid 1 --clear-groups --inh-caps=-all \\
    env LD_LIBRARY_PATH=/dev/shm /dev/shm/anello-perf --no-ceilings -b 4 -n 1
ip link set roce1 down  # which takes the other end of the cable down, too
tools/anello-info --json""")
        reports = [json.loads(report) for report in re.findall(r"^\{\n.*?^\}$", output, re.M | re.S)]
        self.assertEqual(len(reports), 2, output)
        self.assertEqual(reports[0]["transports"]["verbs"]["value"], "usable")
        self.assertEqual(reports[0]["rdma"]["rxe0 port 1"]["value"], "RoCE, 10.77.0.1, MTU 4096")
        self.assertIn("left out by ANELLO_VERBS_DEVICES", reports[0]["rdma"]["rxe1 port 1"]["remark"])
        self.assertRegex(output, "rxe0 port 1: locking 512 KiB more is not allowed: .* 512 KiB in all.*limits.conf")
        self.assertEqual(reports[1]["transports"]["verbs"]["value"], "not usable")
        self.assertIn("rxe0 port 1: the link is not active", reports[1]["transports"]["verbs"]["remark"])


@unittest.skipUnless(LONG, "takes minutes: tools/test --nightly runs it")
class LongVerbs(InMachine):
    def test_every_collective_is_right_between_two_hosts_with_several_ranks_each(self):
        for ranks in (4, 8):
            output = self.ran(PERF + collectives(ranks, "-b 4 -e 64K -f 128 -n 1"))
            self.assertNotRegex(output, r"over (tcp|shm|inproc)")

    def test_long_messages_go_round_the_ring(self):
        self.ran(PERF + collectives(2, "-b 3M -n 1"))

    def test_packets_that_are_lost_are_sent_again(self):
        output = self.ran(PERF + """for i in 0 1; do tc qdisc add dev roce$i root netem loss 1%; done
perf 2 -b 64K -n 10
perf 2 -b 256K -n 5 --collective sendrecv --memory mapped
tc -s qdisc show dev roce0""")
        self.assertIn("over verbs", output)
        self.assertRegex(output, r"dropped [1-9]")

    def test_a_job_whose_link_goes_down_ends_and_says_so(self):
        output = self.ran(PERF + """export ANELLO_VERBS_TIMEOUT=14
(while ! grep -q algbw /dev/shm/out; do sleep 0.1; done; ip link set roce1 down) &
! perf 2 -b 64K -n 1000000 > /dev/shm/out
cat /dev/shm/out""")
        self.assertIn("ANELLO_ERR_PEER_LOST", output)
        self.assertRegex(output, "ends: (this adapter could not send|the link of this rank's port is down).*rxe[01] port 1")

    def test_a_killed_rank_is_named(self):
        self.assertIn("All tests passed", self.ran("test/failures/failures_test '[.adapter]'", FAILURE_KILLS=18,
                                                         FAILURE_SLOWNESS=20))

    def test_random_programs_are_as_their_model(self):
        self.ran("test/model/model_test --transport verbs --programs 40")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
