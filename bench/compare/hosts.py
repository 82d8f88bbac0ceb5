"""Simulated hosts: network namespaces on a bridge, each behind a link of a given rate both ways. Needs root."""

import array
import fcntl
import os
import socket
import struct
import subprocess

# With a quarter of this burst, the link is idle while the machine wakes up to send: a plain connection then reaches 80
# % of the link, not 95.
BURST = "128kb"
QUEUE = "20ms"  # the delay of the queue in front of the link when it is full
_SIOCETHTOOL = 0x8946
_OFFLOADS = (("tso", 0x1E), ("gso", 0x23), ("gro", 0x2B))  # ETHTOOL_GTSO and so on


def _run(*words):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stdout.strip()}")


def offloads(interface):
    """As "tso on, gso on, gro off"."""
    states = []
    with socket.socket() as asking:
        for name, command in _OFFLOADS:
            value = array.array("I", [command, 0])
            fcntl.ioctl(asking, _SIOCETHTOOL, struct.pack("16sP16x", interface.encode(), value.buffer_info()[0]))
            states.append(f"{name} {'on' if value[1] else 'off'}")
    return ", ".join(states)


class Hosts:
    """with Hosts(4, "1gbit") as hosts: ...; the namespaces are always removed afterwards."""

    interface = "anello0"  # of every host

    def __init__(self, count, rate, queue=QUEUE):
        self.count, self.rate, self.queue = count, rate, queue
        self.tag = f"anc{os.getpid()}"
        self.bridge = f"{self.tag}b"
        self.net = f"10.{77 + os.getpid() % 100}.{os.getpid() // 100 % 250}"

    def name(self, host):
        return f"{self.tag}h{host}"

    def port(self, host):
        return f"{self.tag}p{host}"

    def address(self, host):
        return f"{self.net}.{host + 1}"

    def enter(self, host):
        """The words before a command that run it on that host."""
        # Each host has its own name: from ranks with one host name Anello sees that they share processors, and would
        # choose for that.
        named = f'hostname {self.name(host)} && exec "$@"'
        return ["ip", "netns", "exec", self.name(host), "unshare", "--uts", "sh", "-c", named, "sh"]

    def __enter__(self):
        try:
            _run("ip", "link", "add", self.bridge, "type", "bridge")
            _run("ip", "addr", "add", f"{self.net}.254/24", "dev", self.bridge)
            _run("ip", "link", "set", self.bridge, "up")
            for host in range(self.count):
                self._add(host)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _add(self, host):
        inside = self.enter(host)
        _run("ip", "netns", "add", self.name(host))
        _run("ip", "link", "add", self.port(host), "type", "veth", "peer", "name", self.interface, "netns", self.name(host))
        _run("ip", "link", "set", self.port(host), "master", self.bridge, "up")
        _run(*inside, "ip", "addr", "add", f"{self.address(host)}/24", "dev", self.interface)
        _run(*inside, "ip", "link", "set", "lo", "up")
        _run(*inside, "ip", "link", "set", self.interface, "up")
        shape = ["root", "tbf", "rate", self.rate, "burst", BURST, "latency", self.queue]
        _run(*inside, "tc", "qdisc", "add", "dev", self.interface, *shape)  # what the host sends
        _run("tc", "qdisc", "add", "dev", self.port(host), *shape)  # what it receives

    def __exit__(self, *_):
        for host in range(self.count):
            subprocess.run(["ip", "netns", "del", self.name(host)], stderr=subprocess.DEVNULL, check=False)
            subprocess.run(["ip", "link", "del", self.port(host)], stderr=subprocess.DEVNULL, check=False)
        subprocess.run(["ip", "link", "del", self.bridge], stderr=subprocess.DEVNULL, check=False)

    def text(self):
        return (f"{self.count} hosts as network namespaces on a bridge, {self.rate} both ways by tbf, burst {BURST}, "
                f"queue {self.queue}; offloads of their interfaces: {offloads(self.port(0))}")
