"""Hosts as network namespaces, joined by a bridge, for as long as the object lives. Needs root, unshare, nsenter and ip."""

import json
import os
import pathlib
import subprocess
import sys

LIFE = 1200  # seconds, should nobody close them

# Both ways between two interfaces, but for a share of the frames, which is lost.
CABLE = """
import random, select, socket, sys
ends = [socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) for _ in range(2)]
for end, name in zip(ends, sys.argv[1:3]):
    end.setsockopt(263, 15, 1)  # PACKET_VNET_HDR: checksums and segments as they are
    end.setsockopt(263, 23, 1)  # PACKET_IGNORE_OUTGOING
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    end.bind((name, 0))
lost, chance = float(sys.argv[3]), random.Random(1)
print("ready", flush=True)
while True:
    for end in select.select(ends, [], [])[0]:
        frame = end.recv(1 << 17)
        if chance.random() >= lost:
            try:
                ends[end is ends[0]].send(frame)
            except OSError:
                pass  # the queue is full: lost as well
"""


class Space:
    """A namespace, for as long as a sleeping process is in it."""

    def __init__(self):
        self.keeper = subprocess.Popen(["unshare", "-n", "sh", "-c", f"echo ready && exec sleep {LIFE}"], stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True)
        if self.keeper.stdout.readline() != "ready\n":
            raise PermissionError(self.keeper.communicate()[1].strip())
        self.enter = ["nsenter", "-t", str(self.keeper.pid), "-n"]
        self.run("ip", "link", "set", "lo", "up")

    def run(self, *words):
        subprocess.run([*self.enter, *words], check=True, capture_output=True, timeout=30)

    def close(self):
        self.keeper.kill()
        self.keeper.communicate()


class Network:
    """So many hosts. loss: the share of frames that is lost on the way to and from each of them."""

    def __init__(self, hosts, loss=0.0):
        self.hosts, self.cables = [], []
        self.bridge = Space()
        try:
            self.bridge.run("ip", "link", "add", "bridge", "type", "bridge")
            self.bridge.run("ip", "link", "set", "bridge", "up")
            for number in range(hosts):
                self.hosts.append(Space())
                self._join(number, loss)
        except BaseException:
            self.close()
            raise

    def _join(self, number, loss):
        host, port, bridge = self.hosts[number], f"port{number}", self.bridge
        bridge.run("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", str(host.keeper.pid))
        bridge.run("ip", "link", "set", port, "up")
        socket = port
        if loss > 0:
            plug, socket = f"plug{number}", f"socket{number}"
            bridge.run("ip", "link", "add", plug, "type", "veth", "peer", "name", socket)
            bridge.run("ip", "link", "set", plug, "up")
            bridge.run("ip", "link", "set", socket, "up")
            cable = subprocess.Popen([*bridge.enter, sys.executable, "-c", CABLE, port, plug, str(loss)], stdout=subprocess.PIPE, text=True)
            self.cables.append(cable)
            if cable.stdout.readline() != "ready\n":
                raise RuntimeError("no cable")
        bridge.run("ip", "link", "set", socket, "master", "bridge")
        host.run("ip", "addr", "add", f"{self.address(number)}/24", "dev", "eth0")
        # Single segments, so that each is lost for itself.
        host.run("ip", "link", "set", "eth0", "gso_max_segs", "1", "up")

    @staticmethod
    def address(number):
        return f"10.79.0.{number + 1}"

    def cut(self, number):
        self.bridge.run("ip", "link", "set", f"port{number}", "down")

    def deafen(self, number):
        """What the others send to it is lost; what it sends arrives."""
        for other in range(len(self.hosts)):
            if other != number:
                self._misdirect(other, number)

    def silence(self, number):
        """What it sends is lost; what the others send to it arrives."""
        for other in range(len(self.hosts)):
            if other != number:
                self._misdirect(number, other)

    def _misdirect(self, sender, receiver):
        self.hosts[sender].run("ip", "neigh", "replace", self.address(receiver), "lladdr", "02:00:00:00:00:99", "dev", "eth0", "nud",
                               "permanent")

    def slow(self, number, rate):
        for space, interface in ((self.hosts[number], "eth0"), (self.bridge, f"port{number}")):
            space.run("tc", "qdisc", "add", "dev", interface, "root", "tbf", "rate", rate, "burst", "32k", "latency", "400ms")

    def close(self):
        for cable in self.cables:
            cable.kill()
            cable.communicate()
        for space in [*self.hosts, self.bridge]:
            space.close()


class Cables:
    """Two hosts with a cable between each pair of interfaces rail0, rail1, ..; rates: one a cable, as "200mbit", or None for no
    limit."""

    def __init__(self, rates):
        self.rates, self.hosts = rates, []
        try:
            self.hosts = [Space(), Space()]
            for rail, rate in enumerate(rates):
                name = f"rail{rail}"
                self.hosts[0].run("ip", "link", "add", name, "type", "veth", "peer", "name", name, "netns", str(self.hosts[1].keeper.pid))
                for number, host in enumerate(self.hosts):
                    host.run("ip", "addr", "add", f"{self.address(number, rail)}/24", "dev", name)
                    host.run("ip", "link", "set", name, "up")
                    if rate:
                        host.run("tc", "qdisc", "add", "dev", name, "root", "tbf", "rate", rate, "burst", "128kb", "latency", "20ms")
        except BaseException:
            self.close()
            raise

    @staticmethod
    def address(number, rail=0):
        return f"10.{80 + rail}.0.{number + 1}"

    def sent(self, number):
        """The bytes that a host has sent over each rail."""
        done = subprocess.run([*self.hosts[number].enter, "ip", "-json", "-stats", "link"], check=True, capture_output=True, timeout=30)
        links = {link["ifname"]: link["stats64"]["tx"]["bytes"] for link in json.loads(done.stdout)}
        return [links[f"rail{rail}"] for rail in range(len(self.rates))]

    def start(self, program, port, secret, places, interfaces, **variables):
        """Ranks on these hosts; secret: a file; interfaces: each host's ANELLO_INTERFACES."""
        ranks = []
        for rank, host in enumerate(places):
            environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(len(places)), "MASTER_ADDR": self.address(0),
                           "MASTER_PORT": str(port), "ANELLO_SECRET_FILE": str(secret), "ANELLO_INTERFACES": interfaces[host], **variables}
            ranks.append(subprocess.Popen([*self.hosts[host].enter, *program], env=environment, stdout=subprocess.PIPE,
                                          stderr=subprocess.PIPE, text=True))
        return ranks

    def close(self):
        for host in self.hosts:
            host.close()


def why_not():
    """Why there can be none here; None: there can."""
    try:
        Network(2).close()
    except (OSError, subprocess.SubprocessError) as error:
        return f"needs the right to make network namespaces, and the commands unshare, nsenter and ip: {error}"
    return None
