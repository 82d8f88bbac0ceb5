#!/usr/bin/env python3
"""anello-info --doctor: each check is seen to notice what it looks for. Limits are real ones; hosts are namespaces in which the
fault is made. Arguments: anello-info, a library that shows other clocks."""

import ctypes
import json
import os
import pathlib
import resource
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).parent.parent / each) for each in ("support", "failures")]
import networks  # noqa: E402

INFO, CLOCKS = map(os.path.abspath, sys.argv[1:3])
del sys.argv[1:3]
CLEAN = {name: value for name, value in os.environ.items()
         if not name.startswith("ANELLO_") and name not in ("container", "KUBERNETES_SERVICE_HOST")}
PROCESS_VM_READV, PIDFD_OPEN = 310, 434  # numbers of x86-64
EPERM, ENOSYS = 1, 38
CONTAINED = any(pathlib.Path(mark).exists() for mark in ("/.dockerenv", "/run/.containerenv", "/run/systemd/container"))


def refuse(number, error):
    """In this process and its children, a system call returns an error: what a container's filter does."""
    class Instruction(ctypes.Structure):
        _fields_ = [("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint32)]

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.POINTER(Instruction))]
    code = (Instruction * 4)(Instruction(0x20, 0, 0, 0), Instruction(0x15, 0, 1, number), Instruction(0x06, 0, 0, 0x00050000 | error),
                             Instruction(0x06, 0, 0, 0x7fff0000))
    program = Program(4, code)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, ctypes.byref(program), 0, 0) != 0:
        os._exit(99)


def lower(limit, value, hard=None):
    """The soft limit; the hard one stays as it is."""
    resource.setrlimit(limit, (value, resource.getrlimit(limit)[1] if hard is None else hard))


def may(*words):
    return subprocess.run([*words, "true"], capture_output=True).returncode == 0


CAN_MOUNT = may("unshare", "-m", "-u", "-n")
NO_MOUNT = "needs the right to make mount, network and host name namespaces"


class Doctor(unittest.TestCase):
    def run_doctor(self, *before, options=("--json",), before_start=None, **variables):
        return subprocess.run([*before, INFO, "--doctor", *options], capture_output=True, text=True, timeout=60, preexec_fn=before_start,
                              env=CLEAN | variables)

    def examine(self, *before, **more):
        """The findings by the check's name, and the exit code."""
        ended = self.run_doctor(*before, **more)
        self.assertEqual(ended.stderr, "")
        findings = {each["check"]: each for each in json.loads(ended.stdout)}
        problems = [each for each in findings.values() if each["verdict"] == "problem"]
        self.assertEqual(ended.returncode, 1 if problems else 0, problems)
        return findings

    def finds(self, check, verdict, value, *before, remedy="", **more):
        found = self.examine(*before, **more)[check]
        self.assertEqual(found["verdict"], verdict, found)
        self.assertIn(value, found["value"])
        if verdict != "ok":
            self.assertRegex(found["meaning"], r"^[A-Z].*\.$", "a sentence")
            for_containers = "docker" in found["remedy"]
            self.assertEqual(for_containers, "docker" in remedy or (for_containers and CONTAINED), found)
            if for_containers == ("docker" in remedy):
                self.assertIn(remedy, found["remedy"])
        return found

    def inside(self, script, kinds="-mn"):
        """The words that run a command where a shell script has been run before."""
        if not CAN_MOUNT:
            self.skipTest(NO_MOUNT)
        return ["unshare", kinds, "sh", "-e", "-c", f"{script}\nexec \"$@\"", "sh"]

    # -- the report -----------------------------------------------------------------------------------------------

    def test_lines_are_aligned_and_say_the_same_as_the_json(self):
        lines = self.run_doctor(options=()).stdout.splitlines()
        findings = self.examine()
        begins = [line for line in lines if line.split(" ")[0] in ("ok", "warning", "problem")]
        self.assertEqual(len(begins), len(findings))
        widest = max(map(len, findings))
        for line, (name, finding) in zip(begins, findings.items()):
            self.assertEqual(line[:9 + widest + 2], f"{finding['verdict']:9}{name:{widest + 2}}")
            self.assertNotEqual(line[9 + widest + 2], " ")
            if finding["verdict"] != "ok":
                at = lines.index(line)
                self.assertEqual(lines[at + 1:at + 3], [" " * 9 + finding["meaning"], " " * 11 + finding["remedy"]])
        counts = [sum(each["verdict"] == word for each in findings.values()) for word in ("ok", "warning", "problem")]
        self.assertRegex(lines[-1], rf"^{len(findings)} checks: {counts[0]} ok, {counts[1]} warnings?, {counts[2]} problems?$")

    # -- settings -------------------------------------------------------------------------------------------------

    def test_variables_that_are_wrong_or_unknown(self):
        self.finds("settings", "ok", "no variable")
        self.finds("settings", "ok", "2 variables", ANELLO_LOG="info", ANELLO_TIMEOUT_MS="5000")
        self.finds("settings", "problem", "ANELLO_PORT_RANGE=9-8 is not LOW-HIGH", ANELLO_PORT_RANGE="9-8", remedy="unset ANELLO_PORT_RANGE")
        self.finds("settings", "problem", 'the transport "smoke"', ANELLO_TRANSPORT="smoke", remedy="env | grep ANELLO_")
        self.finds("settings", "problem", "there is no algorithm 'square'", ANELLO_ALGORITHM="square", remedy="unset ANELLO_ALGORITHM")
        self.finds("settings", "problem", "/no/table of rank 0 cannot be read", ANELLO_TUNING="/no/table")
        self.finds("settings", "problem", "/no/secret: No such file", ANELLO_SECRET_FILE="/no/secret", remedy="head -c 32 /dev/urandom > /no/secret")
        with tempfile.NamedTemporaryFile() as file:
            file.write(os.urandom(32))
            file.flush()
            self.finds("settings", "ok", "1 variable", ANELLO_SECRET_FILE=file.name)
            os.chmod(file.name, 0o644)
            self.finds("settings", "problem", "others may read", ANELLO_SECRET_FILE=file.name, remedy=f"chmod 600 {file.name}")
        self.finds("settings", "warning", "did you mean ANELLO_TIMEOUT_MS", ANELLO_TIMOUT_MS="1", remedy="unset ANELLO_TIMOUT_MS")

    # -- limits ---------------------------------------------------------------------------------------------------

    def test_limits_of_the_shell(self):
        self.finds("open files", "ok", "4096 (ulimit -n)", before_start=lambda: lower(resource.RLIMIT_NOFILE, 4096))
        self.finds("open files", "warning", "200 (ulimit -n)", before_start=lambda: lower(resource.RLIMIT_NOFILE, 200), remedy="ulimit -n ")
        self.finds("open files", "problem", "40 (ulimit -n)", before_start=lambda: lower(resource.RLIMIT_NOFILE, 40), remedy="ulimit -n ")
        self.finds("file size", "ok", "no limit")
        self.finds("file size", "warning", "at most 1.0 MiB", before_start=lambda: lower(resource.RLIMIT_FSIZE, 1 << 20), remedy="unlimited")

    def test_the_remedy_is_one_that_may_be_typed(self):
        if os.geteuid() != 0:
            self.skipTest("needs root, to become another user")

        def as_user(soft, hard=None):
            def begin():
                lower(resource.RLIMIT_NOFILE, soft, hard)
                os.setresuid(65534, 65534, 65534)
            return begin
        try:
            subprocess.run([INFO, "--help"], capture_output=True, preexec_fn=as_user(300), check=True)
        except (PermissionError, subprocess.CalledProcessError):
            self.skipTest(f"another user may not run {INFO}")
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        self.finds("open files", "warning", "200", before_start=as_user(200), remedy=f"ulimit -n {min(hard, 65536)}")
        self.finds("open files", "warning", "200", before_start=as_user(200, 5000), remedy="ulimit -n 5000")
        self.finds("open files", "warning", "200", before_start=as_user(200, 200), remedy="/etc/security/limits.d")
        self.finds("open files", "warning", "200", before_start=as_user(200, 200), remedy="docker run --ulimit nofile=65536", container="docker")

    def test_locked_memory_counts_where_there_is_an_rdma_adapter(self):
        def limited(value):
            return lambda: lower(resource.RLIMIT_MEMLOCK, value)
        adapter = self.inside("mount -t tmpfs none /sys/class; mkdir -p /sys/class/infiniband/mlx5_0")
        self.finds("locked memory", "ok", "there is none", before_start=limited(64 << 10))
        unlimited = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1] == resource.RLIM_INFINITY
        self.finds("locked memory", "warning", "64.0 KiB", *adapter, before_start=limited(64 << 10),
                   remedy="ulimit -l unlimited" if unlimited else "docker run --ulimit memlock=-1" if CONTAINED else "memlock unlimited")
        found = self.finds("locked memory", "warning", "8.0 MiB", *adapter, before_start=limited(8 << 20))
        self.assertIn("can have 8 of them", found["meaning"])
        if unlimited:
            self.finds("locked memory", "ok", "no limit", *adapter, before_start=limited(resource.RLIM_INFINITY))
        self.assertEqual(self.examine(*adapter)["RDMA"]["verdict"], "warning", "its files are not those of a real one")

    # -- memory ---------------------------------------------------------------------------------------------------

    def test_memory_of_peers_that_may_not_be_read(self):
        self.finds("peers' memory", "ok", "can read")
        refused = lambda: refuse(PROCESS_VM_READV, EPERM)  # noqa: E731
        self.finds("peers' memory", "warning", "process_vm_readv: Operation not permitted, by a filter", before_start=refused)
        self.finds("peers' memory", "warning", "Operation not permitted", before_start=refused, container="docker",
                   remedy="docker run --cap-add=SYS_PTRACE")
        yama = "mount -t tmpfs none /proc/sys/kernel; mkdir /proc/sys/kernel/yama; echo {} > /proc/sys/kernel/yama/ptrace_scope"
        self.finds("peers' memory", "ok", "can read", *self.inside(yama.format(1)))
        self.finds("peers' memory", "warning", "ptrace_scope is 1", *self.inside(yama.format(1)), before_start=refused,
                   remedy="sudo sysctl kernel.yama.ptrace_scope=0")
        self.finds("peers' memory", "warning", "ptrace_scope is 3", *self.inside(yama.format(3)), before_start=refused, remedy="reboot")

    def test_system_calls_that_a_filter_refuses(self):
        self.finds("system calls", "ok", "filtered, and those", before_start=lambda: refuse(PROCESS_VM_READV, EPERM))
        found = self.finds("system calls", "warning", "pidfd_open (Function not implemented)", remedy="seccomp=unconfined", container="docker",
                           before_start=lambda: refuse(PIDFD_OPEN, ENOSYS))
        self.assertIn("noticed later", found["meaning"])

    def test_a_small_folder_for_shared_memory(self):
        small = self.inside("mount -t tmpfs -o size=32m none /dev/shm")
        self.finds("/dev/shm", "warning", "32.0 MiB", *small, remedy="sudo mount -o remount,size=8G /dev/shm")
        self.finds("/dev/shm", "warning", "32.0 MiB", *small, remedy="docker run --shm-size=8g", container="docker")
        full = self.inside("mount -t tmpfs -o size=128m none /dev/shm; head -c 100M /dev/zero > /dev/shm/left")
        self.finds("/dev/shm", "warning", "28.0 MiB free", *full, remedy="ls -l /dev/shm")
        self.finds("/dev/shm", "ok", "128.0 MiB", *self.inside("mount -t tmpfs -o size=128m none /dev/shm"))

    def test_shared_memory_that_a_sandbox_forbids(self):
        found = self.finds("transports", "warning", "shm is not usable", before_start=lambda: refuse(319, EPERM))
        self.assertIn("memfd_create", found["meaning"])

    # -- processors and clocks ------------------------------------------------------------------------------------

    def test_a_quota_that_is_below_the_processors(self):
        allowed = len(os.sched_getaffinity(0))
        group = None
        for root, files in (("/sys/fs/cgroup/cpu", {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "50000"}),
                            ("/sys/fs/cgroup", {"cpu.max": "50000 100000"})):
            place = pathlib.Path(root, f"anello-test-{os.getpid()}")
            try:
                place.mkdir()
                group = place
                self.addCleanup(group.rmdir)
                for name, value in files.items():
                    (place / name).write_text(value)
                break
            except OSError:
                continue
        if group is None or not (group / next(iter(files))).exists():
            self.skipTest("needs the right to make a control group with a quota")
        found = self.finds("processors", "warning", f"{allowed}, but the cgroup grants the time of 0.5", remedy="anellorun -np 1",
                           before_start=lambda: (group / "cgroup.procs").write_text(str(os.getpid())))
        self.assertIn("the others wait", found["meaning"])
        self.finds("processors", "ok", str(allowed))

    def test_clocks_that_are_wrong_or_slow(self):
        shim = {"LD_PRELOAD": CLOCKS, "ASAN_OPTIONS": "verify_asan_link_order=0"}
        self.finds("clock", "ok", "synchronized, within", **shim)
        self.finds("clock", "warning", "not synchronized", **shim, ANELLO_TEST_CLOCK_UNSYNCHRONIZED="1", remedy="timedatectl set-ntp true")
        self.finds("clock source", "ok", "ns for a reading")
        self.finds("clock source", "warning", "ns for a reading", **shim, ANELLO_TEST_CLOCK_SLOW="1", remedy="current_clocksource")

    # -- names and networks ---------------------------------------------------------------------------------------

    LAN = "ip link set lo up; ip link add lan0 type bridge; ip addr add 10.3.2.1/24 dev lan0; ip link set lan0 up; "

    def named(self, hosts, script=LAN):
        return self.inside(f"""{script} hostname alpha; mount -t tmpfs none /dev/shm; printf '127.0.0.1 localhost\\n{hosts}' > /dev/shm/hosts
          printf 'hosts: files\\n' > /dev/shm/nsswitch; mount --bind /dev/shm/hosts /etc/hosts; mount --bind /dev/shm/nsswitch /etc/nsswitch.conf""", "-mnu")

    def test_host_names_that_lead_elsewhere_or_nowhere(self):
        self.finds("host name", "ok", "alpha is 10.3.2.1", *self.named("10.3.2.1 alpha"))
        self.finds("host name", "warning", "alpha has no address", *self.named(""), remedy="echo '10.3.2.1 alpha' | sudo tee -a /etc/hosts")
        self.finds("host name", "warning", "127.0.1.1, which is the loopback", *self.named("127.0.1.1 alpha"),
                   remedy="export MASTER_ADDR=10.3.2.1")
        self.finds("host name", "warning", "10.9.9.9, which is no address of this host", *self.named("10.9.9.9 alpha"),
                   remedy="export MASTER_ADDR=10.3.2.1")
        self.finds("host name", "ok", "alpha is 127.0.1.1", *self.named("127.0.1.1 alpha", "ip link set lo up;"))

    def test_interfaces(self):
        docker = ("ip link set lo up; ip link add docker0 type bridge; ip addr add 172.17.0.1/16 dev docker0; "
                  "ip link set docker0 up; ")
        self.finds("interfaces", "warning", "only the loopback", *self.inside("ip link set lo up"), remedy="ip link set NAME up")
        self.finds("interfaces", "warning", "only the loopback and docker0 172.17.0.1", *self.inside(docker))
        self.finds("interfaces", "ok", "lan0 10.3.2.1; not used: docker0", *self.inside(docker + self.LAN))
        two = self.LAN + "ip link add lan1 type bridge; ip addr add 10.4.2.1/24 dev lan1; ip link set lan1 up; "
        self.finds("interfaces", "ok", "ANELLO_INTERFACE=NAME chooses another", *self.inside(two))
        self.finds("interfaces", "ok", "lan1 10.4.2.1 (ANELLO_INTERFACE=10.4.0.0/16)", *self.inside(two), ANELLO_INTERFACE="10.4.0.0/16")
        self.finds("interfaces", "problem", "ANELLO_INTERFACE==lan means none", *self.inside(two), ANELLO_INTERFACE="=lan",
                   remedy="unset ANELLO_INTERFACE")

    def test_ports(self):
        self.finds("ports", "ok", "reaches itself at 10.3.2.1", *self.inside(self.LAN))
        self.finds("ports", "ok", "11 of the 11", *self.inside(self.LAN), ANELLO_PORT_RANGE="30000-30010")
        self.finds("ports", "problem", "does not reach its own address", *self.inside("true"), remedy="ip link set lo up")
        with socket.socket() as squatter:
            squatter.bind(("", 0))
            squatter.listen()
            port = squatter.getsockname()[1]
            self.finds("ports", "problem", f"ANELLO_PORT_RANGE={port}-{port} is free", ANELLO_PORT_RANGE=f"{port}-{port}",
                       remedy="unset ANELLO_PORT_RANGE")

    # -- devices --------------------------------------------------------------------------------------------------

    def test_a_gpu_without_a_driver(self):
        if pathlib.Path("/dev/nvidia0").exists():
            self.skipTest("there is a GPU here")
        self.finds("GPUs", "ok", "none here")
        device = self.inside("mount -t tmpfs none /dev; touch /dev/nvidia0; mknod /dev/null c 1 3; mkdir /dev/shm")
        self.finds("GPUs", "warning", "no driver", *device, remedy="nvidia-smi")
        self.finds("GPUs", "warning", "no driver", *device, remedy="docker run --gpus all", container="docker")

    def test_a_container_with_its_own_network(self):
        if CONTAINED:
            self.skipTest("this is a container already")
        self.finds("container", "ok", "none")
        self.finds("container", "ok", "docker, with the host's network", container="docker")
        if networks.why_not():
            self.skipTest(networks.why_not())
        network = networks.Network(1)
        self.addCleanup(network.close)
        own = [*network.hosts[0].enter, "unshare", "-m", "sh", "-c", 'mount -t sysfs none /sys && exec "$@"', "sh"]
        self.finds("container", "ok", "docker, with its own network", *own, container="docker")

    def test_a_container_with_the_loopback_alone(self):
        # With /sys of its own, and with that of the host.
        for script in ("mount -t sysfs none /sys", "true"):
            self.finds("container", "warning", "with its own network, in which only the loopback is", *self.inside(script),
                       remedy="docker run --network=host", container="docker")

    def test_a_container_with_its_own_process_numbers(self):
        words = ["unshare", "-p", "-i", "--fork", "--mount-proc"]
        if not may(*words):
            self.skipTest("needs the right to make namespaces of processes")
        if not self.examine(container="docker")["container"]["value"].endswith(", with the host's network"):
            self.skipTest("this is a container already")
        self.finds("container", "ok", "docker, with the host's network, but process numbers of its own", *words, container="docker")


if __name__ == "__main__":
    unittest.main(verbosity=2)
