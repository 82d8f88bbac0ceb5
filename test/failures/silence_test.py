"""What happens when a host, a link or a process falls silent without ending, and what must not happen while it only seems so. Hosts are
network namespaces.

Arguments: failures_test, whose role "listening" makes calls and tells what it sees of the others. With SILENCE_LONG=seconds also
what takes long, for so long each.
"""

import concurrent.futures
import os
import pathlib
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import cases  # noqa: E402
import networks  # noqa: E402

FAILURES_TEST = os.path.abspath(sys.argv.pop(1))
LIMIT = 2.0       # seconds, by default
SUSPICION = 0.6
LOADED = 0.7      # for a machine that does other things
LONG = int(os.environ.get("SILENCE_LONG", "0"))
BUSY = 20         # programs


class Rank:
    def __init__(self, number, enter, environment):
        self.number = number
        self.process = subprocess.Popen([*enter, FAILURES_TEST, "--role", "listening"], env=environment, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.lines, self.log = queue.Queue(), []
        self.threads = [threading.Thread(target=self._listen), threading.Thread(target=lambda: self.log.extend(self.process.stderr))]
        for thread in self.threads:
            thread.start()

    def _listen(self):
        for line in self.process.stdout:
            when, words = line.rstrip("\n").split(" ", 1)
            self.lines.put((int(when) / 1e9, words))
        self.lines.put((time.monotonic(), "end of output"))

    def hear(self, beginning, seconds=30.0):
        """When and what it says that begins so; what it says before is passed over."""
        end = time.monotonic() + seconds
        heard = []
        while True:
            try:
                when, words = self.lines.get(timeout=max(end - time.monotonic(), 0.01))
            except queue.Empty:
                raise AssertionError(f"rank {self.number} did not say \"{beginning}\" in {seconds} s, but {heard}; {self.log}") from None
            heard.append(words)
            if words.startswith(beginning):
                return when, words
            if words.startswith("WRONG") or words == "end of output":
                raise AssertionError(f"rank {self.number} said {heard}, not \"{beginning}\"; {self.log}")

    def unserved(self):
        """Seconds in which its threads could have run but had no processor, all in all; of those that it has."""
        waited = 0
        for thread in pathlib.Path("/proc", str(self.process.pid), "task").glob("*/schedstat"):
            try:
                waited += int(thread.read_text().split()[1])
            except OSError:  # it has ended
                pass
        return waited / 1e9

    def signal(self, number):
        os.kill(self.process.pid, number)

    def close(self):
        self.process.kill()
        self.process.wait()
        for thread in self.threads:
            thread.join()
        self.process.stdout.close()
        self.process.stderr.close()


class Job:
    """Ranks in turn on so many hosts, all of them in calls."""

    def __init__(self, network, of_each_host, **settings):
        self.network, self.ranks = network, []
        hosts = len(network.hosts)
        self.host_of = [number for number in range(hosts) for _ in range(of_each_host)]
        self.directory = tempfile.TemporaryDirectory()
        secret = pathlib.Path(self.directory.name, "secret")
        secret.write_text("a secret of thirty-two characters")
        secret.chmod(0o600)
        for number, host in enumerate(self.host_of):
            environment = {**os.environ, "RANK": str(number), "WORLD_SIZE": str(len(self.host_of)), "MASTER_ADDR": network.address(0),
                           "MASTER_PORT": "4212", "ANELLO_SECRET_FILE": str(secret)}
            for name, value in settings.items():
                environment[name if name.startswith("ANELLO_") else f"SETTING_{name}"] = str(value)
            self.ranks.append(Rank(number, network.hosts[host].enter, environment))

    def running(self):
        for rank in self.ranks:
            rank.hear("running", 60)
        time.sleep(0.5)
        self.unserved = [rank.unserved() for rank in self.ranks]
        return self

    def of_host(self, number):
        return [rank for rank in self.ranks if self.host_of[rank.number] == number]

    def not_of_host(self, number):
        return [rank for rank in self.ranks if self.host_of[rank.number] != number]

    def signal(self, ranks, number):
        for rank in ranks:
            rank.signal(number)

    def close(self):
        while self.ranks:
            self.ranks.pop().close()
        self.directory.cleanup()


class Silence(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        reason = networks.why_not()
        if reason:
            raise unittest.SkipTest(reason)

    def job(self, hosts, of_each, loss=0.0, **settings):
        network = networks.Network(hosts, loss)
        self.addCleanup(network.close)
        job = Job(network, of_each, **settings)
        self.addCleanup(job.close)
        return job

    def in_time(self, job, rank, took, limit, words):
        """What a busy machine kept from the rank since the job runs does not count."""
        unserved = max(rank.unserved() - job.unserved[rank.number], 0)
        self.assertLess(took - unserved, limit + LOADED, f"rank {rank.number}: {words}")

    def lost(self, job, begin, listeners, host, limit=LIMIT, all_of_it=True):
        """All listeners call the ranks of that host lost, in time; of one that can be heard perhaps only its lowest."""
        ranks = [rank.number for rank in job.of_host(host)]
        took = []
        for rank in listeners:
            when, words = rank.hear("ended", 3 * limit)
            took.append(when - begin)
            self.assertRegex(words, "^ended ANELLO_ERR_PEER_LOST ")
            self.assertRegex(words, f"rank ({'|'.join(map(str, ranks))}) \\(host ")
            self.assertRegex(words, r"said nothing for \d+\.\d s|messages do not reach it")
            self.in_time(job, rank, when - begin, limit, words)
            _, words = rank.hear("lost")
            known = sorted(set(map(int, words.replace("none", "").split()[1:])) & set(ranks))
            self.assertIn(known, [ranks] if all_of_it else [ranks, ranks[:1]], f"rank {rank.number} {words}")
        print("after", " ".join(f"{1000 * each:.0f}" for each in took), "ms", file=sys.stderr)

    def together(self, case, arguments):
        """The case for each of the arguments, at once: they wait most of the time."""
        with concurrent.futures.ThreadPoolExecutor(len(arguments)) as pool:
            for told, done in [(each, pool.submit(case, *each)) for each in arguments]:
                with self.subTest(arguments=told):
                    done.result()

    def test_a_link_that_goes_down(self):
        self.together(self.link_down, [(2,), (0,)])

    def link_down(self, host):
        job = self.job(3, 2).running()
        begin = time.monotonic()
        job.network.cut(host)
        # Seen by the lowest rank, which tells the others, or by each host of the lowest rank's silence.
        first = job.of_host(1 if host == 0 else 0)[0]
        when, words = first.hear("suspected", LIMIT)
        self.in_time(job, first, when - begin, SUSPICION, words)
        self.assertIn(str(job.of_host(host)[0].number), words.split())
        self.lost(job, begin, job.not_of_host(host), host)
        # Behind the cut all others are as silent.
        for rank in job.of_host(host):
            when, words = rank.hear("ended", 3 * LIMIT)
            self.assertRegex(words, r"^ended ANELLO_ERR_PEER_LOST .*said nothing for \d+\.\d s")
            self.in_time(job, rank, when - begin, LIMIT, words)

    def test_one_direction_that_is_lost(self):
        self.together(self.one_direction, [("deafen", 1), ("deafen", 0), ("silence", 1), ("silence", 0)])

    def one_direction(self, way, host):
        job = self.job(2, 2).running()
        begin = time.monotonic()
        getattr(job.network, way)(host)
        self.lost(job, begin, job.of_host(1 - host), host, all_of_it=False)
        self.lost(job, begin, job.of_host(host), 1 - host, all_of_it=False)

    def test_a_host_that_is_frozen(self):
        self.together(self.frozen, [(1,), (0,)])

    def frozen(self, host):
        job = self.job(3, 2).running()
        begin = time.monotonic()
        job.signal(job.of_host(host), signal.SIGSTOP)
        for rank in job.not_of_host(host):
            when, words = rank.hear("ended", 3 * LIMIT)
            self.assertRegex(words, r"^ended ANELLO_ERR_PEER_LOST .*stopped or frozen")
            self.in_time(job, rank, when - begin, LIMIT, words)
        job.signal(job.of_host(host), signal.SIGCONT)
        for rank in job.of_host(host):
            self.assertIn("PEER_LOST", rank.hear("ended", 10)[1])

    def test_a_rank_that_is_stopped_is_not_lost(self):
        self.together(self.stopped, [(3,), (0,)])

    def stopped(self, number):
        job = self.job(2, 2, seconds=6).running()
        job.ranks[number].signal(signal.SIGSTOP)
        begin = time.monotonic()
        for rank in job.ranks:
            if rank.number != number:
                when, words = rank.hear("suspected", LIMIT)
                self.assertIn(str(number), words.split())
                self.in_time(job, rank, when - begin, SUSPICION, words)
        time.sleep(max(begin + 1.7 * LIMIT - time.monotonic(), 0))
        job.ranks[number].signal(signal.SIGCONT)
        for rank in job.ranks:
            self.assertIn("ended ANELLO_OK", rank.hear("ended", 20)[1])
        self.assertTrue(any("stopped, by a signal or a debugger" in line for rank in job.ranks for line in rank.log))

    def test_all_stopped_for_a_while(self):
        job = self.job(2, 2, seconds=7).running()
        job.signal(job.ranks, signal.SIGSTOP)
        time.sleep(5)
        job.signal(job.ranks, signal.SIGCONT)
        for rank in job.ranks:
            self.assertIn("ended ANELLO_OK", rank.hear("ended", 20)[1])

    def test_the_limit_is_a_setting(self):
        self.together(self.limited, [(500,), (0,)])

    def limited(self, limit_ms):
        job = self.job(2, 1, ANELLO_SILENCE_MS=limit_ms, timeout_ms=4000).running()
        begin = time.monotonic()
        job.network.cut(1)
        if limit_ms > 0:
            self.lost(job, begin, [job.ranks[0]], 1, limit_ms / 1000)
        else:
            self.assertIn("ANELLO_ERR_TIMEOUT", job.ranks[0].hear("ended", 10)[1])

    # ---- What must not be taken for silence ----

    def healthy(self, job, seconds):
        for rank in job.ranks:
            rank.hear("running", 120)
        for rank in job.ranks:
            _, words = rank.hear("ended", seconds + 120)
            self.assertIn("ended ANELLO_OK", words)
        warnings = [line for rank in job.ranks for line in rank.log]
        print(f"{len(job.ranks)} ranks, {seconds} s: {len(warnings)} warnings", *warnings[:8], file=sys.stderr)
        return warnings

    def test_a_slow_link_that_is_full(self):
        seconds = LONG or 3
        network = networks.Network(2)
        self.addCleanup(network.close)
        job = Job(network, 2, seconds=seconds, count=20_000, linger_ms=4000)
        self.addCleanup(job.close)
        job.running()
        network.slow(1, "1mbit")
        for rank in job.ranks:
            self.assertIn("ended ANELLO_OK", rank.hear("ended", seconds + 60)[1])

    @unittest.skipUnless(LONG, "takes long: SILENCE_LONG")
    def test_a_link_that_loses_one_frame_in_fifty(self):
        job = self.job(2, 4, loss=0.02, seconds=LONG, count=4000, linger_ms=2000)
        self.assertEqual(self.healthy(job, LONG), [])

    @unittest.skipUnless(LONG, "takes long: SILENCE_LONG")
    def test_hosts_with_much_else_to_do(self):
        busy = [subprocess.Popen(["timeout", str(LONG + 300), sys.executable, "-c", "while True: pass"]) for _ in range(BUSY)]
        try:
            self.healthy(self.job(4, 8, seconds=LONG), LONG)
        finally:
            for program in busy:
                program.terminate()
                program.wait()


if __name__ == "__main__":
    cases.run()
