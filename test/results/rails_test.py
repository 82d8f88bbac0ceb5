"""Two hosts, which are network namespaces, with several cables between them: ANELLO_INTERFACES. Needs root and ip.

Arguments: paths of hosts_ranks, and of an all-reduce.
"""

import pathlib
import sys
import tempfile
import unittest

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER.parent / "support"), str(FOLDER.parent / "failures")]
sys.dont_write_bytecode = True
import cases  # noqa: E402
import networks  # noqa: E402

HOSTS_RANKS, ALLREDUCE = sys.argv.pop(1), sys.argv.pop(1)
DEADLINE = 120
WHY_NOT = networks.why_not()


@unittest.skipIf(WHY_NOT, WHY_NOT)
class Rails(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.secret = pathlib.Path(folder.name, "secret")
        self.secret.write_text("a secret of thirty-two characters")
        self.secret.chmod(0o600)

    def cables(self, count):
        cables = networks.Cables([None] * count)
        self.addCleanup(cables.close)
        return cables

    def run_on(self, cables, port, *interfaces, program=HOSTS_RANKS, **variables):
        """interfaces: of each host. Returns what the ranks said, and the bytes that each cable brought from the first to the second."""
        before = cables.sent(0)
        variables = {"ANELLO_LOG": "info", "ANELLO_TIMEOUT_MS": "20000"} | variables
        ranks = cables.start([program], port, self.secret, (0, 0, 1, 1), interfaces, **variables)
        self.addCleanup(lambda: [(rank.kill(), rank.communicate()) for rank in ranks])
        said = [rank.communicate(timeout=DEADLINE)[1] for rank in ranks]
        return [rank.returncode for rank in ranks], said, [after - was for after, was in zip(cables.sent(0), before)]

    def test_long_messages_use_all_rails_and_every_result_is_right(self):
        for count in (2, 3):
            with self.subTest(rails=count):
                cables = self.cables(count)
                codes, said, carried = self.run_on(cables, 4310, "rail", "rail")
                self.assertEqual(codes, [0] * 4, said)
                self.assertRegex(said[0], rf"rank 2 .* over tcp on {count} rails")
                self.assertGreater(min(carried), 0.5 * sum(carried) / count, carried)

    def test_one_interface_is_one_connection(self):
        cables = self.cables(2)
        codes, said, carried = self.run_on(cables, 4312, "=rail0", "=rail0")
        self.assertEqual(codes, [0] * 4, said)
        self.assertNotIn("rails", said[0])
        self.assertLess(carried[1], 0.01 * carried[0])

    def test_the_pair_has_as_many_rails_as_the_host_with_fewer(self):
        cables = self.cables(3)
        codes, said, carried = self.run_on(cables, 4313, "rail", "=rail0,rail1")
        self.assertEqual(codes, [0] * 4, said)
        self.assertIn("on 2 rails", said[0])
        self.assertIn("on 2 rails", said[3])
        self.assertLess(carried[2], 0.01 * sum(carried))

    def test_packets_that_go_by_one_way_and_come_back_by_another(self):
        cables = self.cables(2)
        # Each host has an address of its own behind both cables, and they send by different ones.
        for number, host in enumerate(cables.hosts):
            other = 1 - number
            for name in ("all", "rail0", "rail1"):  # loose: packets may come by another way than the answer goes
                host.run("sh", "-c", f"echo 2 > /proc/sys/net/ipv4/conf/{name}/rp_filter")
            host.run("ip", "addr", "add", f"10.90.0.{number + 1}/32", "dev", "lo")
            host.run("ip", "route", "add", f"10.90.0.{other + 1}", "via", cables.address(other, rail=number), "dev", f"rail{number}",
                     "src", f"10.90.0.{number + 1}")
        codes, said, there = self.run_on(cables, 4315, "", "", MASTER_ADDR="10.90.0.1")
        self.assertEqual(codes, [0] * 4, said)
        self.assertRegex(said[0], r"rank 2 .* over tcp")
        back = cables.sent(1)
        for sent, used in ((there, 0), (back, 1)):
            self.assertGreater(sent[used], 1 << 20)
            self.assertLess(sent[1 - used], 0.01 * sent[used], "only what asks for neighbours")

    def test_a_rail_that_leads_nowhere_is_named(self):
        cables = self.cables(2)
        # The second interfaces are in different networks.
        cables.hosts[1].run("ip", "addr", "del", "10.81.0.2/24", "dev", "rail1")
        cables.hosts[1].run("ip", "addr", "add", "10.99.0.2/24", "dev", "rail1")
        codes, said, _ = self.run_on(cables, 4314, "rail", "rail", program=ALLREDUCE, ANELLO_TIMEOUT_MS="8000")
        self.assertEqual(codes, [1] * 4, said)
        self.assertRegex("".join(said), r"no connection to rank [0-3] .* within 8000 ms: rail 2 of 2 \(ANELLO_INTERFACES\): "
                                        r"tcp://10\.(99|81)\.0\.[12]:\d+: connect: Network is unreachable \(errno 101\): this host has no route to it")
        # A route may still come, so it tries on; but a person hears of it long before the end.
        self.assertRegex("".join(said), r"no connection yet: tcp://10\.(99|81)\.0\.[12]:\d+: connect: Network is unreachable")


if __name__ == "__main__":
    cases.run()
