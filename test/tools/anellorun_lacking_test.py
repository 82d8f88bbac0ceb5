"""anellorun on hosts that lack what most have: it works, or says why not. Argument: the program."""

import ctypes
import errno
import struct
import subprocess
import sys
import unittest

from launcher import Launcher

ANELLORUN = sys.argv.pop()
PIDFD_OPEN, MEMFD_CREATE = 434, 319  # x86-64
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2


def forbid(call):
    """For this process and what it starts: the call fails with EPERM."""
    refuse, allow = 0x00050000 | errno.EPERM, 0x7FFF0000
    instructions = [(0x20, 0, 0, 0), (0x15, 0, 1, call), (0x06, 0, 0, refuse), (0x06, 0, 0, allow)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in instructions))
    filter_ = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(instructions), ctypes.addressof(program)))
    libc = ctypes.CDLL(None, use_errno=True)
    if (libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter_, 0, 0) != 0):
        raise OSError(ctypes.get_errno(), "prctl")


def can(*command):
    try:
        return subprocess.run(command, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


class Lacking(unittest.TestCase):
    def run_shell(self, ranks, script, *options, **more):
        launcher = Launcher(ANELLORUN, ["-np", str(ranks), *options, "bash", "-c", script], **more)
        self.addCleanup(launcher.close)
        return launcher.end()

    def without(self, call, ranks, script, *options):
        try:
            return self.run_shell(ranks, script, *options, preexec_fn=lambda: forbid(call))
        except subprocess.SubprocessError:
            self.skipTest("this kernel has no filters of system calls")

    def in_network(self, prepare, ranks, script):
        if not can("unshare", "-n", "sh", "-c", prepare):
            self.skipTest("needs the right to make network namespaces, and the ip command")
        launcher = Launcher("unshare", ["-n", "sh", "-c", prepare + ' && exec "$@"', "sh", ANELLORUN, "-np", str(ranks),
                                        "bash", "-c", script])
        self.addCleanup(launcher.close)
        return launcher.end()

    def test_the_loopback_of_a_host_with_ipv6_alone(self):
        prepare = "ip link set lo up && ip addr del 127.0.0.1/8 dev lo"
        code, out, err = self.in_network(prepare, 2, "echo $MASTER_ADDR $MASTER_PORT")
        self.assertEqual((code, err), (0, ""))
        self.assertRegex(out, r"^(::1 \d+\n){2}$")

    def test_a_host_without_loopback_gets_ranks_that_meet_by_the_jobs_name(self):
        prepare = "ip link set lo up && ip addr del 127.0.0.1/8 dev lo && ip addr del ::1/128 dev lo"
        code, out, err = self.in_network(prepare, 2, "echo ${MASTER_ADDR-unset} ${ANELLO_JOB:+named}")
        self.assertEqual((code, out, err), (0, "unset named\n" * 2, ""))

    def test_without_process_descriptors_deaths_are_seen_and_named(self):
        code, _, err = self.without(PIDFD_OPEN, 3, "[ $RANK = 1 ] && exit 7; sleep 60")
        self.assertEqual(code, 7)
        self.assertIn("rank 1", err)
        self.assertIn("exit code 7", err)
        self.assertEqual(self.without(PIDFD_OPEN, 3, "exit 0")[0], 0)

    def test_without_memory_files_the_secret_comes_through_a_pipe(self):
        script = "head -c 100 <&$ANELLO_SECRET_FD | od -An -v -tx1 | tr -d ' \\n'; echo"
        code, out, err = self.without(MEMFD_CREATE, 3, script)
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(len(set(out.split())), 1)
        self.assertRegex(out, r"^([0-9a-f]{64}\n){3}$")


if __name__ == "__main__":
    unittest.main()
