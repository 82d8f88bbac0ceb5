"""Ranks on two hosts that share memory inside each and nothing but a cable between them: network namespaces. Needs root and ip.

Arguments: path of hosts_ranks. Ranks are numbered over the hosts in turn, and in blocks of unequal size.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
sys.dont_write_bytecode = True
import cases  # noqa: E402

HOSTS_RANKS = sys.argv.pop(1)
DEADLINE = 120


class Namespaces:
    """Two of them, 10.78.0.1 and 10.78.0.2, for as long as two sleeping processes are in them."""

    def __init__(self):
        self.sleepers = [subprocess.Popen(["unshare", "-n", "sleep", str(DEADLINE)]) for _ in range(2)]
        first, second = self.pids = [str(sleeper.pid) for sleeper in self.sleepers]
        own = os.readlink("/proc/self/ns/net")
        while any(os.readlink(f"/proc/{pid}/ns/net") == own for pid in self.pids):
            if any(sleeper.poll() is not None for sleeper in self.sleepers):
                raise PermissionError("no right to make network namespaces")
        self.ip("link", "add", "anello1", "netns", first, "type", "veth", "peer", "name", "anello1", "netns", second)
        for host, pid in enumerate(self.pids):
            for words in (["addr", "add", f"10.78.0.{host + 1}/24", "dev", "anello1"], ["link", "set", "anello1", "up"],
                          ["link", "set", "lo", "up"]):
                self.ip(*words, inside=pid)

    def ip(self, *words, inside=None):
        enter = [] if inside is None else ["nsenter", "-t", inside, "-n"]
        subprocess.run([*enter, "ip", *words], check=True, capture_output=True)

    def close(self):
        for sleeper in self.sleepers:
            sleeper.kill()
            sleeper.wait()


class Hosts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.spaces = cls.directory = None
        try:
            cls.spaces = Namespaces()
        except (OSError, subprocess.CalledProcessError) as error:
            raise unittest.SkipTest(f"needs the right to make network namespaces, and the ip command: {error}") from error
        cls.directory = tempfile.TemporaryDirectory()
        cls.secret = pathlib.Path(cls.directory.name, "secret")
        cls.secret.write_text("a secret of thirty-two characters")
        cls.secret.chmod(0o600)

    @classmethod
    def tearDownClass(cls):
        if cls.spaces:
            cls.spaces.close()
        if cls.directory:
            cls.directory.cleanup()

    def run_on(self, host_of, port):
        ranks = []
        for rank, host in enumerate(host_of):
            environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(len(host_of)), "MASTER_ADDR": "10.78.0.1",
                           "MASTER_PORT": str(port), "ANELLO_SECRET_FILE": str(self.secret)}
            ranks.append(subprocess.Popen(["nsenter", "-t", self.spaces.pids[host], "-n", HOSTS_RANKS], env=environment,
                                          stderr=subprocess.PIPE, text=True))
        try:
            for number, rank in enumerate(ranks):
                _, told = rank.communicate(timeout=DEADLINE)
                self.assertEqual(rank.returncode, 0, f"rank {number}: {told}")
        finally:
            for rank in ranks:
                rank.kill()
                rank.communicate()

    def test_ranks_in_turn(self):
        self.run_on([0, 1, 0, 1], 4201)

    def test_ranks_in_blocks_of_unequal_size(self):
        self.run_on([0, 0, 0, 1], 4203)


if __name__ == "__main__":
    cases.run()
