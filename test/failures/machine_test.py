"""What ranks find under settings of the whole machine, which are nobody's to change for a test: Yama's ptrace_scope, as a user
other than root, and huge pages of shared memory; and what one with two NUMA nodes has. In a virtual machine with Debian's kernel; emulated, so that it runs where KVM
does not.

Arguments: failures_test; region_test; the folder where tools/setup.sh (virtual_machine) has put vmlinuz and busybox.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

FAILURES_TEST = pathlib.Path(sys.argv[1])
REGION_TEST = pathlib.Path(sys.argv[2])
MACHINE = pathlib.Path(sys.argv[3])
CASES = "mapped on some ranks*,where Yama*"
SHARED_PAGES = "/sys/kernel/mm/transparent_hugepage/shmem_enabled"
DEADLINE = 600

# Runs the cases under either setting. Root reads whatever it likes, so another user does it.
INIT = f"""#!/bin/busybox sh
export PATH=/bin LD_LIBRARY_PATH=/lib
busybox mkdir -p /proc /sys /dev /tmp
busybox mount -t proc none /proc
busybox mount -t sysfs none /sys
busybox mount -t devtmpfs none /dev
busybox mkdir -p /dev/shm
busybox mount -t tmpfs none /dev/shm
busybox mount -t tmpfs none /tmp
busybox ip link set lo up
for scope in 0 1; do
  echo $scope > /proc/sys/kernel/yama/ptrace_scope
  echo "== under scope $(busybox cat /proc/sys/kernel/yama/ptrace_scope)"
  /bin/setpriv --reuid 1000 --regid 1000 --clear-groups /failures_test '{CASES}' 2>&1
  echo "== ended with $?"
done
for setting in never advise; do
  echo $setting > {SHARED_PAGES}
  echo "== under huge pages $setting"
  /region_test '[huge]' 2>&1
  echo "== ended with $?"
done
echo "== under two nodes"
busybox cat /sys/devices/system/node/has_memory
busybox taskset 1 /region_test '[node]' 2>&1
echo "== ended with $?"
busybox poweroff -f
"""


def libraries(program):
    """Where the loader finds what a program needs."""
    told = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    return re.findall(r"(/\S+) \(0x", told)


def pack(folder, into):
    """A folder as the kernel's first file system."""
    names = "\n".join(str(path.relative_to(folder)) for path in sorted(folder.rglob("*")))
    with open(into, "wb") as archive:
        subprocess.run([MACHINE / "busybox", "cpio", "-o", "-H", "newc"], cwd=folder, input=names.encode(), stdout=archive,
                       stderr=subprocess.DEVNULL, check=True)


class Machine(unittest.TestCase):
    told = None

    def setUp(self):
        lacking = [name for name in ("vmlinuz", "busybox") if not (MACHINE / name).exists()]
        if shutil.which("qemu-system-x86_64") is None:
            lacking.append("qemu-system-x86_64")
        if lacking:
            self.skipTest(f"needs {', '.join(lacking)}: tools/test fetches them, on x86-64")
        if Machine.told is None:
            with tempfile.TemporaryDirectory() as directory:
                Machine.told = self.boot(pathlib.Path(directory))

    @staticmethod
    def boot(directory):
        root = directory / "root"
        (root / "bin").mkdir(parents=True)
        (root / "lib").mkdir()
        (root / "lib64").mkdir()
        shutil.copy(MACHINE / "busybox", root / "bin/busybox")
        setpriv = shutil.which("setpriv")
        shutil.copy(setpriv, root / "bin")
        shutil.copy(FAILURES_TEST, root / "failures_test")
        shutil.copy(REGION_TEST, root / "region_test")
        for library in libraries(FAILURES_TEST) + libraries(REGION_TEST) + libraries(setpriv):
            shutil.copy(library, root / ("lib64" if "/ld-linux" in library else "lib"))
        (root / "init").write_text(INIT)
        (root / "init").chmod(0o755)
        pack(root, directory / "initrd")
        # By its own deadline qemu is ended, and with it all that ran in it.
        ran = subprocess.run(
            ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "1024",
             "-object", "memory-backend-ram,id=near,size=768M", "-numa", "node,nodeid=0,memdev=near,cpus=0-1",
             "-object", "memory-backend-ram,id=far,size=256M", "-numa", "node,nodeid=1,memdev=far", "-nic", "none",
             "-display", "none", "-monitor", "none", "-serial", "stdio", "-no-reboot", "-kernel", MACHINE / "vmlinuz",
             "-initrd", directory / "initrd", "-append", "console=ttyS0 quiet panic=-1"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=DEADLINE, check=False)
        return dict(re.findall(r"== under ([a-z ]+\w)\r?\n(.*?== ended with \d+)", ran.stdout, re.DOTALL)) or \
            {"": ran.stdout[-3000:] + ran.stderr[-1000:]}

    def ran_under(self, setting):
        self.assertIn(setting, self.told, self.told)
        self.assertIn("== ended with 0", self.told[setting], self.told[setting])
        return self.told[setting]

    def test_siblings_are_read_where_it_is_off(self):
        self.assertNotIn("SKIPPED: the kernel does not let", self.ran_under("scope 0"))
        self.assertIn("SKIPPED: Yama is off here", self.told["scope 0"])

    def test_siblings_are_not_read_and_results_are_right_where_it_is_on(self):
        self.assertNotIn("SKIPPED: Yama is off here", self.ran_under("scope 1"))
        self.assertIn("SKIPPED: the kernel does not let", self.told["scope 1"])

    def test_huge_pages_are_there_where_the_kernel_gives_them_to_who_asks(self):
        self.assertNotIn("SKIPPED", self.ran_under("huge pages advise"))

    def test_pages_lie_on_the_node_that_was_asked_for(self):
        self.assertRegex(self.ran_under("two nodes"), r"^0-1\r?\n")
        self.assertNotIn("SKIPPED", self.told["two nodes"])

    def test_huge_pages_that_cannot_be_had_are_no_error(self):
        self.assertIn("SKIPPED", self.ran_under("huge pages never"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
