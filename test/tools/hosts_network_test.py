#!/usr/bin/env python3
"""anellorun --hosts over real sshds on hosts that are network namespaces without a default route. Arguments: the program, an
all-reduce."""

import os
import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
import cases  # noqa: E402
import ssh_hosts  # noqa: E402
from launcher import Launcher, state, until  # noqa: E402

ALLREDUCE = os.path.abspath(sys.argv.pop())
ANELLORUN = os.path.abspath(sys.argv.pop())
WHY_NOT = ssh_hosts.why_not() or ssh_hosts.networks.why_not()
if os.geteuid() != 0:
    WHY_NOT = WHY_NOT or "needs root: each namespace has its sshd"


@unittest.skipIf(WHY_NOT, WHY_NOT)
class HostsOnANetwork(unittest.TestCase):
    def network(self, count):
        hosts = ssh_hosts.InNamespaces(count)
        self.addCleanup(hosts.close)
        return hosts

    def start(self, hosts, names, *arguments, **variables):
        enter = hosts.enter
        launcher = Launcher(enter[0], [*enter[1:], ANELLORUN, "--hosts", names, *arguments], env=hosts.environment() | variables)
        self.addCleanup(launcher.close)
        return launcher

    def test_ranks_meet_at_an_address_that_the_others_reach(self):
        hosts = self.network(3)
        # As of a container engine: the same address on every host, and it leads nowhere else.
        for space in hosts.network.hosts:
            space.run("ip", "link", "add", "abridge", "type", "bridge")
            space.run("ip", "addr", "add", "10.1.0.1/24", "dev", "abridge")
            space.run("ip", "link", "set", "abridge", "up")
        # The launcher's own host by its address, without ssh, and others by name.
        for names, place in [("10.79.0.1:1,host1:1,host2:1", "10.79.0.1"), ("host2:1,host1:1,host0:1", "10.79.0.3")]:
            code, out, err = self.start(hosts, names, "sh", "-c", "echo $MASTER_ADDR").end()
            self.assertEqual((code, out, err), (0, f"{place}\n" * 3, ""))
            code, out, err = self.start(hosts, names, ALLREDUCE).end()
            self.assertEqual((code, err), (0, ""))
            self.assertEqual(sorted(out.splitlines()), [f"rank {rank} of 3: 3 3 6" for rank in range(3)])

    def test_a_place_that_another_host_does_not_reach_is_named_before_ranks_start(self):
        hosts = self.network(2)
        # Of the network that the user asks for, host 1 is no part.
        hosts.network.hosts[0].run("ip", "addr", "add", "10.80.0.1/24", "dev", "eth0")
        begin = time.monotonic()
        code, out, err = self.start(hosts, "10.79.0.1,host1", "echo", "started", ANELLO_INTERFACE="10.80.0.1").end()
        self.assertLess(time.monotonic() - begin, 15)
        self.assertEqual((code, out), (126, ""))
        self.assertRegex(err, r"no address of host 10\.79\.0\.1, where rank 0 is, is reached by all other hosts:\n"
                              r"  host1 to 10\.80\.0\.1:\d+: Network is unreachable")

    def test_words_that_leave_no_place_for_others_are_named(self):
        hosts = self.network(2)
        for name, value, said in [
                ("ANELLO_INTERFACE", "^eth", "host 10.79.0.1, where rank 0 is, has no address that other hosts can reach: "
                                             "ANELLO_INTERFACE=^eth leaves only its loopback"),
                ("ANELLO_INTERFACES", "nope", "ANELLO_INTERFACES=nope: no interface has this name or address; there are lo (127.0.0.1"),
                ("ANELLO_INTERFACES", "eth0,10.0.0.0/33", "ANELLO_INTERFACES=eth0,10.0.0.0/33: the prefix length of 10.0.0.0/33 is not")]:
            with self.subTest(name=name, value=value):
                code, out, err = self.start(hosts, "10.79.0.1,host1", "echo", "started", **{name: value}).end()
                self.assertEqual((code, out), (126, ""))
                self.assertIn(said, err)
                self.assertNotIn("firewall", err)

    def test_a_host_that_vanishes_ends_the_job_and_its_own_ranks_end_too(self):
        hosts = self.network(2)
        launcher = self.start(hosts, "10.79.0.1:2,host1:2", "sh", "-c", "echo $$; exec sleep 300")
        pids = [launcher.line() for _ in range(4)]
        hosts.network.cut(1)
        begin = time.monotonic()
        code, _, err = launcher.process.wait(60), None, launcher.process.stderr.read()
        self.assertLess(time.monotonic() - begin, 20)
        self.assertEqual(code, 125)
        self.assertIn("host host1 is lost, with ranks 2 to 3: ", err)
        until(lambda: all(state(pid) == "Z" for pid in pids), "no rank is left on either host")


if __name__ == "__main__":
    cases.run()
