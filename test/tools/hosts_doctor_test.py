#!/usr/bin/env python3
"""anellorun --doctor: hosts are network namespaces between which something is wrong. Arguments: anellorun, a library that shows
other clocks."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).parent.parent / each) for each in ("support", "failures")]
import cases  # noqa: E402
import networks  # noqa: E402

ANELLORUN, CLOCKS = map(os.path.abspath, sys.argv[1:3])
del sys.argv[1:3]
WHY_NOT = networks.why_not()
NFT = shutil.which("nft", path=os.environ["PATH"] + ":/usr/sbin:/sbin")


@unittest.skipIf(WHY_NOT, WHY_NOT)
class HostsDoctor(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.variables = {}

    def network(self, count):
        """Hosts h0, h1, .. that are reached in another way than over their network, which may be broken."""
        self.hosts = networks.Network(count)
        self.addCleanup(self.hosts.close)
        shell = self.folder / "shell"
        cases_of_hosts = "\n".join(f"h{number}) exec {' '.join(space.enter)} env $for_h{number} sh -c \"$2\" ;;"
                                   for number, space in enumerate(self.hosts.hosts))
        shell.write_text(f"#!/bin/sh\ncase $1 in\n{cases_of_hosts}\n*) echo \"no host $1\" >&2; exit 255 ;;\nesac\n")
        shell.chmod(0o755)
        self.variables["ANELLO_SSH"] = str(shell)
        self.names = ",".join(f"h{number}" for number in range(count))

    def doctor(self, *options, names=None, **variables):
        begin = time.monotonic()
        clean = {name: value for name, value in os.environ.items() if not name.startswith("ANELLO_")}
        ended = subprocess.run([ANELLORUN, "--hosts", names or self.names, "--doctor", *options], capture_output=True, text=True, timeout=120,
                               env=clean | self.variables | variables, cwd="/")
        self.seconds = time.monotonic() - begin
        self.out = ended.stdout
        self.assertEqual(ended.stderr, "")
        self.between = ended.stdout[ended.stdout.index("between hosts: "):]
        return ended.returncode

    def problem(self, pair, *said):
        """The lines of a problem."""
        found = re.search(rf"^problem  {pair} +(.*)\n {{9}}(\S.*)\n {{11}}(\S.*)$", self.between, re.M)
        self.assertIsNotNone(found, self.out)
        for each in said:
            self.assertIn(each, found[0])
        return found

    def test_healthy_hosts(self):
        self.network(3)
        self.assertEqual(self.doctor(), 0, self.out)
        for host in range(3):
            self.assertRegex(self.out, rf"(?m)^host h{host}: \d+ checks: \d+ ok, \d+ warnings?, 0 problems$")
            others = ", ".join(rf"h{other} \(10\.79\.0\.{other + 1}, [\d.]+ ms\)" for other in range(3) if other != host)
            self.assertRegex(self.between, rf"(?m)^ok       h{host} +reaches {others}$")
        for host in (1, 2):
            self.assertRegex(self.between, rf"(?m)^ok       clock of h{host} +like that of h0, within [\d.]+ ms$")
        self.assertIn("between hosts: 5 checks: 5 ok, 0 warnings, 0 problems\n", self.out)
        self.assertLess(self.seconds, 30)

    def test_what_each_host_finds_is_shown_and_counts(self):
        self.network(2)
        self.assertEqual(self.doctor(ANELLO_TIMOUT_MS="1"), 0)
        self.assertEqual(len(re.findall(r"(?m)^warning +settings +ANELLO_TIMOUT_MS is not known", self.out)), 2, self.out)
        self.hosts.hosts[1].run("ip", "link", "set", "lo", "down")
        self.assertEqual(self.doctor(), 1)
        h0, h1 = self.out.split("host h1: ")
        self.assertNotIn("problem  ", h0)
        self.assertRegex(h1, r"(?m)^problem  ports +this host does not reach its own address")

    # -- networks -------------------------------------------------------------------------------------------------

    def test_packets_that_are_dropped(self):
        self.network(3)
        self.hosts._misdirect(1, 2)
        self.assertEqual(self.doctor(), 1)
        self.problem("h1 to h2", "10.79.0.3:", "did not answer within 5", "A firewall drops what h1 sends, or the way back is another.",
                     "on h2: sudo iptables -I INPUT -p tcp -s 10.79.0.2 -j ACCEPT", "ANELLO_PORT_RANGE=30000-30100")
        self.problem("h2 to h1", "did not answer")  # the answers are lost
        self.assertRegex(self.between, r"(?m)^ok       h1 +reaches h0 \(")
        self.assertEqual(self.between.count("\nproblem "), 2)
        self.assertLess(self.seconds, 45)

    def test_routes_that_forbid(self):
        for kind, said in [("prohibit", "is forbidden by h1 itself (Permission denied)"), ("blackhole", "is behind a blackhole"),
                           ("unreachable", "says a router or firewall after 0.")]:
            with self.subTest(kind=kind):
                self.network(2)
                self.hosts.hosts[1].run("ip", "route", "add", kind, "10.79.0.1/32")
                self.assertEqual(self.doctor(), 1)
                self.problem("h1 to h0", "10.79.0.1:", said)
                self.hosts.close()

    def test_networks_without_a_way(self):
        self.network(2)
        self.hosts.hosts[1].run("ip", "addr", "flush", "dev", "eth0")
        self.hosts.hosts[1].run("ip", "addr", "add", "10.80.0.2/24", "dev", "eth0")
        self.assertEqual(self.doctor(), 1)
        self.problem("h0 to h1", "10.80.0.2:", "h0 has no route to its network", "on h0: ip route get 10.80.0.2")
        self.problem("h1 to h0", "h1 has no route to its network")

    def test_hosts_without_an_address_for_others(self):
        self.network(2)
        for host in self.hosts.hosts:
            host.run("ip", "addr", "flush", "dev", "eth0")
            host.run("ip", "addr", "add", "fe80::79:1/64", "dev", "eth0", "nodad")
        self.assertEqual(self.doctor(), 1)
        self.problem("h0 to h1", "h1 has no address that other hosts can reach, only its loopback", "on h1: ip -br addr")
        self.problem("h1 to h0", "h0 has no address that other hosts can reach, only its loopback", "on h0: ip -br addr")

    def test_packets_of_ipv6_alone_that_are_dropped(self):
        self.network(2)
        for number, host in enumerate(self.hosts.hosts):
            host.run("ip", "addr", "flush", "dev", "eth0")
            host.run("ip", "addr", "add", f"fd00::79:{number + 1}/64", "dev", "eth0", "nodad")
        self.hosts.hosts[0].run("ip", "neigh", "replace", "fd00::79:2", "lladdr", "02:00:00:00:00:99", "dev", "eth0", "nud", "permanent")
        self.assertEqual(self.doctor(), 1)
        self.problem("h0 to h1", "[fd00::79:2]:", "did not answer", "on h1: sudo ip6tables -I INPUT -p tcp -s fd00::79:1 -j ACCEPT")

    def test_a_cable_that_is_unplugged(self):
        self.network(2)
        self.hosts.cut(1)
        self.assertEqual(self.doctor(), 1)
        self.problem("h0 to h1", "nobody in its network answers to the address", "on h0: ip neigh show 10.79.0.2")

    @unittest.skipIf(NFT is None, "needs nft (nftables)")
    def test_firewalls_that_drop_or_reject(self):
        for rule, said, meaning in [
                ("drop", "did not answer within 5", "A firewall drops what h0 sends"),
                ("reject with tcp reset", "was refused after", "A firewall on h1 or on the way refuses"),
                ("reject with icmp port-unreachable", "was refused after", "A firewall on h1 or on the way refuses"),
                ("reject with icmp admin-prohibited", "is not to be reached, says a router or firewall", "rejects what h0 sends")]:
            with self.subTest(rule=rule):
                self.network(2)
                enter = self.hosts.hosts[1].enter
                asks = "tcp dport != 22 ip saddr 10.79.0.1 tcp flags & (syn | ack) == syn"
                rules = f"table inet t {{\n chain c {{\n type filter hook input priority 0\n {asks} {rule}\n }}\n }}\n"
                subprocess.run([*enter, NFT, "-f", "-"], input=rules, text=True, check=True, capture_output=True)
                self.assertEqual(self.doctor(), 1)
                self.problem("h0 to h1", said, meaning, "The other way works.")
                self.assertRegex(self.between, r"(?m)^ok       h1 +reaches h0 \(")
                self.hosts.close()

    def test_ports_of_the_range_that_is_asked_for(self):
        self.network(2)
        self.assertEqual(self.doctor(ANELLO_PORT_RANGE="31000-31003"), 0)
        self.hosts.hosts[1].run("ip", "route", "add", "blackhole", "10.79.0.1/32")
        self.assertEqual(self.doctor(ANELLO_PORT_RANGE="31000-31003"), 1)
        self.problem("h1 to h0", "10.79.0.1:3100")

    # -- clocks ---------------------------------------------------------------------------------------------------

    def test_clocks_that_differ(self):
        self.network(3)
        shim = f"LD_PRELOAD={CLOCKS} ASAN_OPTIONS=verify_asan_link_order=0 ANELLO_TEST_CLOCK_AHEAD="
        self.assertEqual(self.doctor(for_h1=shim + "3600", for_h2=shim + "-2"), 0)
        for host, said in ((1, r"3600 s ahead of h0|3599 s ahead of h0"), (2, r"(2000|1999|2001)[.\d]* ms behind h0")):
            self.assertRegex(self.between, rf"(?m)^warning  clock of h{host} +({said})$\n.*\n +sudo timedatectl set-ntp true")

    # -- hosts that cannot be examined ----------------------------------------------------------------------------

    def test_a_host_that_no_shell_reaches_does_not_keep_the_others_from_it(self):
        self.network(2)
        self.assertEqual(self.doctor(names="h0,nowhere,h1"), 1)
        self.problem("nowhere", "no agent could be started", "no host nowhere", "ssh nowhere true")
        self.assertRegex(self.between, r"(?m)^ok       h0 +reaches h1 \(")
        self.assertRegex(self.out, r"(?m)^host h1: \d+ checks")

    def test_a_host_without_the_doctor(self):
        self.network(1)
        shutil.copy(ANELLORUN, self.folder)
        self.assertEqual(self.doctor("--agent-path", str(self.folder / "anellorun")), 1)
        self.problem("h0", f"'{self.folder}/anello-info' cannot be started there: No such file or directory")
        info = self.folder / "anello-info"
        info.write_text("#!/bin/sh\necho cannot open shared object file >&2\nexit 127\n")
        info.chmod(0o755)
        self.assertEqual(self.doctor("--agent-path", str(self.folder / "anellorun")), 1)
        self.problem("h0", "anello-info ended with exit code 127 (cannot open shared object file)", f"on h0: {info} --doctor")

    def test_what_it_does_not_take(self):
        self.network(1)
        for words, said in [(["--doctor"], "needs --hosts or --hostfile"), (["--hosts", "a", "--doctor", "true"], "leave out 'true'"),
                            (["--hosts", "n[1-65]", "--doctor"], "at most 64 hosts")]:
            ended = subprocess.run([ANELLORUN, *words], capture_output=True, text=True, timeout=20)
            self.assertEqual(ended.returncode, 2)
            self.assertIn(said, ended.stderr)


if __name__ == "__main__":
    cases.run()
