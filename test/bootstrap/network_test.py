#!/usr/bin/env python3
"""Where ranks on several hosts listen and meet: hosts are network namespaces without a default route. Argument: a rank."""

import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).parent.parent / each) for each in ("support", "failures")]
import cases  # noqa: E402
import networks  # noqa: E402

RANK = os.path.abspath(sys.argv.pop())
WHY_NOT = networks.why_not()
PORT = "4100"
RELAY = """
import asyncio, sys
here, there, *ports = sys.argv[1:]

async def copy(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()

async def serve(port):
    async def visit(reader, writer):
        try:
            onward = await asyncio.open_connection(there, port)
        except OSError:
            return writer.close()
        await asyncio.gather(copy(reader, onward[1]), copy(onward[0], writer), return_exceptions=True)
    return await asyncio.start_server(visit, here, port)

async def main():
    servers = [await serve(int(port)) for port in ports]
    print("ready", flush=True)
    await asyncio.gather(*(server.serve_forever() for server in servers))

asyncio.run(main())
"""

STRANGER = """
import socket, sys, time
kept, listener = [], socket.create_server(("10.79.0.1", 4100), backlog=100)
print("ready", flush=True)
while True:
    visitor = listener.accept()[0]
    exec(sys.argv[1])
"""


@unittest.skipIf(WHY_NOT, WHY_NOT)
class Network(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.network = networks.Network(2)
        self.addCleanup(self.network.close)
        secret = pathlib.Path(self.folder.name, "secret")
        secret.write_bytes(os.urandom(32))
        secret.chmod(0o600)
        self.secret = str(secret)

    def start(self, rank, host=None, **variables):
        environment = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_PORT": PORT, "ANELLO_SECRET_FILE": self.secret,
                       "MASTER_ADDR": self.network.address(0), "TIMEOUT_MS": "20000", "PATH": os.environ["PATH"]}
        process = subprocess.Popen([*self.network.hosts[rank if host is None else host].enter, RANK], env=environment | variables,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def meet(self, **variables):
        ranks = [self.start(rank, **variables) for rank in range(2)]
        return [rank.communicate(timeout=40) for rank in ranks]

    def meets(self, **variables):
        self.assertEqual([out for out, _ in self.meet(**variables)], ["sum 2\n"] * 2)

    def listeners(self, host):
        shown = subprocess.run([*self.network.hosts[host].enter, "ss", "-ltnH"], capture_output=True, text=True, check=True).stdout
        return sorted(line.split()[3] for line in shown.splitlines())

    # -- which address --------------------------------------------------------------------------------------------

    def test_over_a_frameworks_store_rank_0_gives_the_address_that_leads_to_the_others(self):
        for host in self.network.hosts:  # as of a container engine; its address is the first
            host.run("ip", "link", "add", "docker0", "type", "bridge")
            host.run("ip", "addr", "add", "172.17.0.1/16", "dev", "docker0")
            host.run("ip", "link", "set", "docker0", "up")
        stores = [tempfile.mkdtemp(dir=self.folder.name) for _ in range(3)]
        self.meets(STORE_FOLDER=stores[0])
        # Rank 0 is not on the host of the store: the route to that counts.
        self.meets(STORE_FOLDER=stores[1], MASTER_ADDR=self.network.address(1))
        # Nobody knows of an address that all reach.
        self.meets(STORE_FOLDER=stores[2], MASTER_ADDR="")

    def test_interfaces_are_chosen_by_name_and_network(self):
        first = self.network.hosts[0]
        first.run("ip", "addr", "add", "10.80.0.1/24", "dev", "eth0")
        for name, address in (("docker0", "172.17.0.1/16"), ("lan1", "10.81.0.1/24"), ("lan1", "fd00::81:1/64")):
            if name != "lan1" or "." in address:
                first.run("ip", "link", "add", name, "type", "bridge")
            first.run("ip", "addr", "add", address, "dev", name, *(["nodad"] if ":" in address else []))
            first.run("ip", "link", "set", name, "up")
        known, unknown = self.network.address(0), ""
        for words, place, expected in [
                ("eth", known, "10.79.0.1"), ("=eth0", known, "10.79.0.1"), ("^lo", known, "10.79.0.1"), ("10.80.0.0/16", known, "10.80.0.1"),
                ("10.80.0.1", known, "10.80.0.1"), ("fd00::/8", known, "[fd00::81:1]"), ("fd00::/8,10.80.0.0/16", known, "10.80.0.1"),
                # Where nobody knows what leads to the others, the loopback and docker0 come last, unless they are asked for.
                ("^docker,lo", unknown, "10.79.0.1"), ("^nothing", unknown, "10.79.0.1"), ("^eth", unknown, "10.81.0.1"),
                ("^eth,lan", unknown, "127.0.0.1"), ("docker", unknown, "172.17.0.1"), ("=docker0,lan1", unknown, "10.81.0.1"),
                ("lo", unknown, "127.0.0.1")]:
            with self.subTest(words=words, place=place):
                first = self.start(0, ANELLO_INTERFACE=words, MASTER_ADDR=place, STORE_FOLDER=tempfile.mkdtemp(dir=self.folder.name))
                end = time.monotonic() + 20
                while not self.listeners(0) and time.monotonic() < end:
                    time.sleep(0.01)
                self.assertEqual([each.rsplit(":", 1)[0] for each in self.listeners(0)], [expected], "one address, never all")
                first.kill()
                first.communicate()
        out, _ = self.start(0, ANELLO_INTERFACE="=eth", STORE_FOLDER=self.folder.name).communicate(timeout=20)
        self.assertIn("ANELLO_INTERFACE==eth: no interface has this name or address; there are lo (127.0.0.1, ", out)
        self.assertIn("eth0 (10.79.0.1", out)

    def test_words_that_mean_no_interface_are_named(self):
        for name, value, said in [
                ("ANELLO_INTERFACES", "nope", "ANELLO_INTERFACES=nope: no interface has this name or address; there are lo (127.0.0.1"),
                ("ANELLO_INTERFACE", "^eth,lo", "ANELLO_INTERFACE=^eth,lo: no interface is left; there are lo (127.0.0.1"),
                ("ANELLO_INTERFACES", "eth0,10.66.0.0/33", "ANELLO_INTERFACES=eth0,10.66.0.0/33: the prefix length of 10.66.0.0/33 is not"),
                ("ANELLO_ADVERTISE", "nonsense", "ANELLO_ADVERTISE=nonsense is not an address: give the one at which")]:
            with self.subTest(name=name, value=value):
                stores = tempfile.mkdtemp(dir=self.folder.name)
                out, _ = self.start(0, STORE_FOLDER=stores, **{name: value}).communicate(timeout=40)
                self.assertIn(f"error: {said}", out)
        ranks = self.meet(ANELLO_INTERFACES="eth0,nope")
        for out, logged in ranks:
            self.assertEqual(out, "sum 2\n")
            self.assertIn("ANELLO_INTERFACES=eth0,nope: no interface has the name or address nope; there are ", logged)

    def test_link_local_addresses_with_the_scope_of_each_host(self):
        # The interfaces have different names, so neither host can use the other's scope.
        self.network.hosts[1].run("ip", "link", "set", "eth0", "down")
        self.network.hosts[1].run("ip", "link", "set", "eth0", "name", "lan7", "addrgenmode", "none")
        for number, name in ((0, "eth0"), (1, "lan7")):
            self.network.hosts[number].run("ip", "link", "set", name, "up")
            self.network.hosts[number].run("ip", "addr", "add", f"fe80::79:{number + 1}/64", "dev", name, "nodad")
        ranks = [self.start(0, MASTER_ADDR="fe80::79:1%eth0"), self.start(1, MASTER_ADDR="fe80::79:1%lan7")]
        self.assertEqual([rank.communicate(timeout=40)[0] for rank in ranks], ["sum 2\n"] * 2)

    # -- which port -----------------------------------------------------------------------------------------------

    def test_ranks_keep_to_the_range_of_ports(self):
        store = tempfile.mkdtemp(dir=self.folder.name)
        first = self.start(0, ANELLO_PORT_RANGE="5000-5003", STORE_FOLDER=store)
        end = time.monotonic() + 20
        while not self.listeners(0) and time.monotonic() < end:
            time.sleep(0.01)
        for each in self.listeners(0):
            self.assertIn(each.rsplit(":", 1)[1], ("5000", "5001", "5002", "5003"))
        second = self.start(1, ANELLO_PORT_RANGE="5000-5003", STORE_FOLDER=store)
        self.assertEqual([each.communicate(timeout=40)[0] for each in (first, second)], ["sum 2\n"] * 2)
        out, _ = self.start(0, ANELLO_PORT_RANGE="5000-5000", STORE_FOLDER=store, MASTER_ADDR="10.79.0.99").communicate(timeout=40)
        self.assertNotIn("sum", out)
        for wrong in ("5000", "0-3", "9-8", "1-70000", "a-b"):
            out, _ = self.start(0, ANELLO_PORT_RANGE=wrong).communicate(timeout=20)
            self.assertIn(f"ANELLO_PORT_RANGE={wrong} is not LOW-HIGH", out)

    def test_a_place_that_does_not_answer_is_named_soon(self):
        # What host 1 sends arrives, and no answer comes back: as behind a firewall that drops.
        self.network.deafen(1)
        second = self.start(1, ANELLO_SILENCE_MS="0", TIMEOUT_MS="9000")
        begin = time.monotonic()
        said = second.stderr.readline()
        self.assertLess(time.monotonic() - begin, 9)
        why = ("tcp://10.79.0.1:4101: connect: no answer (errno 110); tcp://10.79.0.1:4100: connect: no answer (errno 110): "
               "a firewall may drop what is sent there (ANELLO_PORT_RANGE keeps to ports that one lets through), or the machine is off")
        self.assertIn(f"no connection yet: {why}\n", said)
        out, _ = second.communicate(timeout=40)
        self.assertIn(f"rank 0 was not reached at the meeting place 10.79.0.1:4100 within 9000 ms ({why})", out)

    def test_the_reason_of_a_place_that_is_not_there_is_named(self):
        self.network.hosts[1].run("ip", "addr", "add", "fe80::79:2/64", "dev", "eth0", "nodad")
        self.network.hosts[1].run("ip", "route", "add", "blackhole", "10.98.0.1")
        self.network.hosts[1].run("ip", "route", "add", "prohibit", "10.97.0.1")
        for place, why in [
                ("10.79.0.1", "Connection refused (errno 111): no process listens there, or a firewall rejects connections"),
                ("10.99.0.1", "Network is unreachable (errno 101): this host has no route to it: ip route get 10.99.0.1"),
                ("10.98.0.1", "Invalid argument (errno 22): a route of this host discards what is sent there: ip route show type blackhole"),
                ("10.97.0.1", "Permission denied (errno 13): a firewall or a route of this host forbids it: sudo iptables -L OUTPUT"),
                ("fe80::79:1", "Invalid argument (errno 22): a link-local address needs the name of this host's interface: fe80::79:1%eth0")]:
            with self.subTest(place=place):
                out, _ = self.start(1, TIMEOUT_MS="500", MASTER_ADDR=place).communicate(timeout=40)
                address = f"[{place}]:4100" if ":" in place else f"{place}:4100"
                self.assertIn(f"rank 0 was not reached at the meeting place {address} within 500 ms (tcp://", out)
                self.assertIn(f"tcp://{address}: connect: {why})", out)

    def test_a_stranger_at_the_place_is_named(self):
        for deed, why in [
                # The last attempt has no time for the end that the earlier ones have seen.
                ("time.sleep(0.02); visitor.close()", "connected, but the connection was closed: what listens there is no rank of Anello, or the rank has ended"),
                ("visitor.sendall(b'HTTP/1.1 400 Bad Request' + bytes(100))", "connected, but something that is not Anello answers"),
                ("kept.append(visitor)", "connected, but nothing answers (errno 110): what listens there is no rank of Anello, or its machine")]:
            with self.subTest(deed=deed):
                stranger = subprocess.Popen([*self.network.hosts[0].enter, sys.executable, "-c", STRANGER, deed], stdout=subprocess.PIPE, text=True)
                try:
                    self.assertEqual(stranger.stdout.readline(), "ready\n")
                    out, _ = self.start(1, TIMEOUT_MS="2500").communicate(timeout=40)
                finally:
                    stranger.kill()
                    stranger.communicate()
                self.assertIn(f"tcp://10.79.0.1:4100: {why}", out)

    # -- an address that is not its own ---------------------------------------------------------------------------

    def test_the_told_address_may_differ_from_the_bound_one(self):
        # A third host passes on what comes to its ports, and the others know rank 0 by that host's address.
        self.network.close()
        self.network = networks.Network(3)
        self.addCleanup(self.network.close)
        relay = subprocess.Popen([*self.network.hosts[2].enter, sys.executable, "-c", RELAY, "10.79.0.3", "10.79.0.1", PORT,
                                  *map(str, range(5000, 5004))], stdout=subprocess.PIPE, text=True)
        self.addCleanup(relay.communicate)
        self.addCleanup(relay.kill)
        self.assertEqual(relay.stdout.readline(), "ready\n")
        shared = {"ANELLO_PORT_RANGE": "5000-5003", "MASTER_ADDR": "10.79.0.3"}
        for more in ({}, {"STORE_FOLDER": tempfile.mkdtemp(dir=self.folder.name)}):
            ranks = [self.start(0, ANELLO_ADVERTISE="10.79.0.3", **shared, **more), self.start(1, **shared, **more)]
            self.assertEqual([rank.communicate(timeout=40)[0] for rank in ranks], ["sum 2\n"] * 2)


if __name__ == "__main__":
    cases.run()
