"""A real Slurm cluster on this machine, for as long as the object lives: munged, slurmctld and a slurmd for each virtual node,
from Debian's packages, unpacked in a folder and installed nowhere. Needs root, apt and dpkg."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

PACKAGES = ["slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins", "libslurm38", "munge", "libmunge2"]
LIBRARIES = "usr/lib/x86_64-linux-gnu"


def fetch(folder):
    """Unpacks the packages below the folder, unless they are there; the root of what is in them. Raises OSError with the reason."""
    root = pathlib.Path(folder) / "root"
    if (root / "complete").exists():
        return root
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise OSError("needs apt-get and dpkg")
    packages = pathlib.Path(folder) / "packages"
    packages.mkdir(parents=True, exist_ok=True)
    try:
        got = subprocess.run(["apt-get", "download", *PACKAGES], cwd=packages, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        raise OSError("Debian's packages of Slurm do not come within two minutes") from None
    if got.returncode != 0:
        raise OSError("Debian's packages of Slurm cannot be had here: " + got.stderr.strip().splitlines()[-1])
    for package in packages.glob("*.deb"):
        subprocess.run(["dpkg", "-x", package, root], check=True)
    (root / "complete").touch()
    return root


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Cluster:
    def __init__(self, root, nodes):
        self.root = root
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="anello-slurm-", dir="/tmp"))
        self.folder.chmod(0o755)
        self.processes = []
        libraries = f"{root}/{LIBRARIES}"
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "ANELLO"))} | {
            "LD_LIBRARY_PATH": f"{libraries}:{libraries}/slurm-wlm", "SLURM_CONF": f"{self.folder}/slurm.conf"}
        try:
            self.start(nodes)
        except BaseException:
            self.close()
            raise

    def start(self, nodes):
        key, self.socket = self.folder / "munge.key", self.folder / "munge.socket"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        self.daemon("munged", f"{self.root}/usr/sbin/munged", "--foreground", "--force", f"--key-file={key}", f"--socket={self.socket}",
                    f"--pid-file={self.folder}/munge.pid", f"--seed-file={self.folder}/munge.seed", f"--log-file={self.folder}/munged.log")
        self.until(lambda: self.socket.exists(), "munged")
        host = socket.gethostname().split(".")[0]
        ports = free_ports(1 + len(nodes))
        (self.folder / "cgroup.conf").write_text("CgroupAutomount=no\n")
        lines = ["ClusterName=anello", f"SlurmctldHost={host}(127.0.0.1)", "SlurmUser=root", "SlurmdUser=root", f"SlurmctldPort={ports[0]}",
                 "AuthType=auth/munge", f"AuthInfo=socket={self.socket}", "CredType=cred/munge", f"StateSaveLocation={self.folder}/state",
                 f"SlurmdSpoolDir={self.folder}/spool-%n", f"SlurmctldPidFile={self.folder}/slurmctld.pid",
                 f"SlurmdPidFile={self.folder}/slurmd-%n.pid", f"PluginDir={self.root}/{LIBRARIES}/slurm-wlm", "ProctrackType=proctrack/linuxproc",
                 "TaskPlugin=task/none", "JobAcctGatherType=jobacct_gather/none", "SelectType=select/cons_tres", "SelectTypeParameters=CR_CPU",
                 "SwitchType=switch/none", "MpiDefault=none", "ReturnToService=2", "SlurmdParameters=config_overrides", "InactiveLimit=0", "KillWait=2"]
        for name, port in zip(nodes, ports[1:]):
            (self.folder / f"spool-{name}").mkdir()
            lines.append(f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=8 RealMemory=100 State=UNKNOWN")
        lines.append(f"PartitionName=all Nodes={','.join(nodes)} Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:8")
        (self.folder / "slurm.conf").write_text("\n".join(lines) + "\n")
        (self.folder / "state").mkdir()
        self.daemon("slurmctld", f"{self.root}/usr/sbin/slurmctld-wlm", "-D", "-i")
        for name in nodes:
            more = ["-d", f"{self.root}/usr/sbin/slurmstepd-wlm"]
            self.daemon(f"slurmd-{name}", f"{self.root}/usr/sbin/slurmd-wlm", "-D", "-N", name, *more)
        self.until(lambda: self.idle() == len(nodes), "nodes that are idle")

    def daemon(self, name, *command):
        with open(self.folder / f"{name}.out", "w") as out:
            self.processes.append(subprocess.Popen(command, env=self.environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out))

    def until(self, holds, what):
        end = time.monotonic() + 40
        while not holds():
            ended = [each.args[0] for each in self.processes if each.poll() is not None]
            if ended or time.monotonic() > end:
                said = "".join(f"{each.name}: {each.read_text()[-1500:]}\n" for each in sorted(self.folder.glob("*.out")))
                raise OSError(f"Slurm does not start here ({what}; ended: {ended}):\n{said}")
            time.sleep(0.1)

    def idle(self):
        shown = self.run("sinfo", "-h", "-N", "-o", "%N %T", check=False).stdout
        return sum(line.split()[1].rstrip("*") == "idle" for line in shown.splitlines())

    def run(self, command, *arguments, check=True, timeout=60, variables=None):
        return subprocess.run([f"{self.root}/usr/bin/{command}", *arguments], env=self.environment | (variables or {}), capture_output=True,
                              text=True, timeout=timeout, check=check, cwd=self.folder)

    def close(self):
        for each in reversed(self.processes):
            if each.poll() is None:
                each.send_signal(signal.SIGTERM)
        for each in self.processes:
            try:
                each.wait(10)
            except subprocess.TimeoutExpired:
                each.kill()
                each.wait()
        # A step's manager that has not told the controller of its end when that goes would try for ever.
        for process in self.left_behind():
            os.kill(process, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def left_behind(self):
        """The processes of this cluster that are not its daemons: they have its configuration in their environment."""
        own = f"SLURM_CONF={self.folder}/slurm.conf".encode()
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if own in (process / "environ").read_bytes().split(b"\0"):
                    yield int(process.name)
            except OSError:  # it has ended meanwhile
                continue
