"""Which way ranks of one machine take that have process numbers, /dev/shm and System V memory of their own, or a network, or both, or
neither, as containers and pods have them. Needs root, unshare, nsenter and ip.

Arguments: failures_test, whose role "contained" makes calls, checks their results and says what it finds.
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

FAILURES_TEST = os.path.abspath(sys.argv.pop(1))
DEADLINE = 120
ALGORITHMS = "allreduce:attach,broadcast:direct,allgather:direct,reduce_scatter:direct,alltoall:direct"
CALLS = 5  # that a rank makes with memory of its own, and as many with mapped memory


class Space:
    """Namespaces, for as long as a sleeping process is in them."""

    def __init__(self, flags, inside=None, prepare="true"):
        enter = [] if inside is None else ["nsenter", "-t", inside.pid, "-n"]
        self.keeper = subprocess.Popen([*enter, "unshare", "--kill-child", *flags, "sh", "-c", f"{prepare} && echo ready && exec sleep {DEADLINE}"],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if self.keeper.stdout.readline() != "ready\n":
            raise PermissionError(self.keeper.communicate()[1].strip())
        self.pid = pathlib.Path(f"/proc/{self.keeper.pid}/task/{self.keeper.pid}/children").read_text().split()[0]

    def close(self):
        self.keeper.kill()
        self.keeper.communicate()

    def ip(self, *words):
        subprocess.run(["nsenter", "-t", self.pid, "-n", "ip", *words], check=True, capture_output=True)


class Containers:
    """As many as wished. Those with a network of their own are joined by a bridge, the others share one network."""

    def __init__(self, count, own_network, own_rest):
        self.all = []
        self.bridge = Space(["-n", "--fork"])
        try:
            self.bridge.ip("link", "set", "lo", "up")
            self.bridge.ip("link", "add", "bridge", "type", "bridge")
            self.bridge.ip("link", "set", "bridge", "up")
            for number in range(count):
                flags = ["--fork", *(["-n"] if own_network else []), *(["-p", "-i", "-m", "--mount-proc"] if own_rest else [])]
                self.all.append(Space(flags, self.bridge, "mount -t tmpfs -o size=64k none /dev/shm" if own_rest else "true"))
                if own_network:
                    self.join(number)
        except BaseException:
            self.close()
            raise
        self.first = "10.79.0.1" if own_network else "127.0.0.1"

    def join(self, number):
        inside = self.all[number]
        self.bridge.ip("link", "add", f"port{number}", "type", "veth", "peer", "name", "eth0", "netns", inside.pid)
        self.bridge.ip("link", "set", f"port{number}", "master", "bridge", "up")
        inside.ip("addr", "add", f"10.79.0.{number + 1}/24", "dev", "eth0")
        inside.ip("link", "set", "eth0", "up")
        inside.ip("link", "set", "lo", "up")

    def close(self):
        for space in [*self.all, self.bridge]:
            space.close()


class Ways(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        try:
            Containers(1, True, True).close()
        except (OSError, IndexError, subprocess.CalledProcessError) as error:
            raise unittest.SkipTest(f"needs the right to make namespaces, and the ip command: {error}") from error

    def said(self, container_of, own_network, own_rest):
        """For each rank: what joins it to each other one, and how many calls found that buffers can be (not reached, read, stored to)."""
        containers = Containers(max(container_of) + 1, own_network, own_rest)
        ranks = []
        with tempfile.TemporaryDirectory() as directory:
            secret = pathlib.Path(directory, "secret")
            secret.write_text("a secret of thirty-two characters")
            secret.chmod(0o600)
            try:
                for rank, number in enumerate(container_of):
                    environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(len(container_of)), "MASTER_ADDR": containers.first,
                                   "MASTER_PORT": "4211", "ANELLO_SECRET_FILE": str(secret), "ANELLO_ALGORITHM": ALGORITHMS}
                    ranks.append(subprocess.Popen(
                        ["nsenter", "-t", containers.all[number].pid, "-n", "-m", "-i", "-p", FAILURES_TEST, "--role", "contained"],
                        env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
                told = [rank.communicate(timeout=DEADLINE)[0] for rank in ranks]
            finally:
                containers.close()
                for rank in ranks:
                    rank.kill()
                    rank.communicate()
        found = []
        for number, (rank, lines) in enumerate(zip(ranks, told)):
            self.assertEqual(rank.returncode, 0, f"rank {number}: {lines}")
            self.assertNotIn("WRONG", lines)
            words = dict(line.split(" ", 2)[1:] for line in lines.splitlines() if line.count(" ") > 1)
            found.append((words["paths"].split(), tuple(int(each) for each in words["reached"].split())))
        return found

    def test_nothing_of_their_own(self):
        for paths, reached in self.said([0, 1, 2], own_network=False, own_rest=False):
            self.assertEqual(paths, ["shm"] * 2)
            # Unless the kernel lets no process read another.
            self.assertIn(reached, [(0, CALLS, CALLS), (CALLS, 0, CALLS)])

    def test_process_numbers_and_shared_memory_of_their_own(self):
        # Descriptors are passed, so what is mapped is mapped; nobody can name another's process, so the rest is staged.
        for paths, reached in self.said([0, 1, 2], own_network=False, own_rest=True):
            self.assertEqual(paths, ["shm"] * 2)
            self.assertEqual(reached, (CALLS, 0, CALLS))

    def test_networks_of_their_own(self):
        # The socket by whose descriptors ranks share memory has its name in the network's namespace: they are as on several hosts.
        for paths, reached in self.said([0, 1, 2], own_network=True, own_rest=False):
            self.assertEqual(paths, ["tcp"] * 2)
            self.assertEqual(reached, (0, 0, 0))

    def test_all_of_it_of_their_own(self):
        for paths, reached in self.said([0, 1, 2], own_network=True, own_rest=True):
            self.assertEqual(paths, ["tcp"] * 2)
            self.assertEqual(reached, (0, 0, 0))

    def test_pods_of_two_ranks_each(self):
        said = self.said([0, 1, 0, 1], own_network=True, own_rest=True)
        self.assertEqual([paths for paths, _ in said],
                         [["tcp", "shm", "tcp"], ["tcp", "tcp", "shm"], ["shm", "tcp", "tcp"], ["tcp", "shm", "tcp"]])
        for _, reached in said:
            self.assertEqual(reached, (0, 0, 0))


if __name__ == "__main__":
    cases.run()
