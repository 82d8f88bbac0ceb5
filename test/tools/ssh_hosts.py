"""Hosts that a real sshd opens to ssh, with keys and settings of its own in a folder that goes away: on the loopback of this
machine, or one in each of several network namespaces. Nothing of the machine's own ssh is read or changed."""

import getpass
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "failures"))
import networks  # noqa: E402

SSHD = shutil.which("sshd", path=os.environ["PATH"] + ":/usr/sbin:/sbin")


def why_not():
    """Why there can be none here; None: there can."""
    if SSHD is None or shutil.which("ssh") is None or shutil.which("ssh-keygen") is None:
        return "needs sshd, ssh and ssh-keygen (openssh-server)"
    if os.geteuid() == 0 and not pathlib.Path("/run/sshd").is_dir():
        tried = subprocess.run(["unshare", "-m", "true"], capture_output=True, text=True)
        if tried.returncode != 0:
            return f"sshd needs /run/sshd, or the right to make a mount namespace: {tried.stderr.strip()}"
    return None


class Keys:
    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="anello-ssh-"))
        for name in ("host_key", "user_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / name], check=True)
        shutil.copy(self.folder / "user_key.pub", self.folder / "authorized")
        self.home().mkdir()
        # A login shell that talks: what it says is not an agent's.
        (self.home() / ".bashrc").write_text("echo welcome\n")
        self.aliases = []

    def home(self):
        """Of those who log in, so that nothing of this machine's own settings gets in."""
        return self.folder / "home"

    def ssh(self):
        """The words of an ssh that knows these keys and nothing else, for ANELLO_SSH."""
        lines = [f"IdentityFile {self.folder}/user_key", "IdentitiesOnly yes", "StrictHostKeyChecking no", "BatchMode yes",
                 f"UserKnownHostsFile {self.folder}/known", "LogLevel ERROR", "ConnectTimeout 10", f"User {getpass.getuser()}"]
        (self.folder / "config").write_text("\n".join(self.aliases + ["Host *"] + lines) + "\n")
        return f"ssh -F {self.folder}/config"

    def alias(self, name, address, port):
        self.aliases.append(f"Host {name}\n  HostName {address}\n  Port {port}")

    def close(self):
        shutil.rmtree(self.folder)


class Sshd:
    """One sshd, for as long as the object lives. enter: the words that run a command where it should be."""

    def __init__(self, keys, address, port, enter=()):
        settings = keys.folder / f"sshd_{address}_{port}"
        settings.write_text("\n".join([
            f"ListenAddress {address}", f"Port {port}", f"HostKey {keys.folder}/host_key", "UsePAM no", "StrictModes no",
            f"AuthorizedKeysFile {keys.folder}/authorized", "PasswordAuthentication no", "PermitRootLogin prohibit-password",
            "PidFile none", "LogLevel ERROR", f"SetEnv HOME={keys.home()}"]) + "\n")
        self.log = keys.folder / f"log_{address}_{port}"
        sshd = [SSHD, "-D", "-E", str(self.log), "-f", str(settings)]
        command = [*enter, *sshd]
        if os.geteuid() == 0:
            # sshd wants an empty folder of root's there. It gets one that nobody else sees.
            script = 'mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec "$@"'
            command = [*enter, "unshare", "-m", "sh", "-c", script, "sh", *sshd]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        probe = [*enter, sys.executable, "-c", f"import socket; socket.create_connection(('{address}', {port}), 1).close()"]
        end = time.monotonic() + 20
        while subprocess.run(probe, capture_output=True).returncode != 0:
            if self.process.poll() is not None or time.monotonic() > end:
                self.close()
                raise RuntimeError("sshd does not listen: " + self.log.read_text())
            time.sleep(0.05)

    def close(self):
        # And its sessions: one whose network was cut would wait for it.
        sessions = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        for pid in sessions.read_text().split() if self.process.poll() is None else []:
            os.kill(int(pid), signal.SIGTERM)
        self.process.terminate()
        self.process.wait()


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class OnLoopback:
    """Names of one machine, over one sshd: what a user sees of several hosts, but for their network."""

    def __init__(self, *names):
        self.keys = Keys()
        port = free_port()
        for name in names:
            self.keys.alias(name, "127.0.0.1", port)
        self.enter = []
        try:
            self.sshd = Sshd(self.keys, "127.0.0.1", port)
        except BaseException:
            self.keys.close()
            raise

    def environment(self):
        return os.environ | {"ANELLO_SSH": self.keys.ssh()}

    def close(self):
        self.sshd.close()
        self.keys.close()


class InNamespaces:
    """Hosts with a network between them and no default route: 10.79.0.1, 10.79.0.2, .. The launcher runs on the first."""

    def __init__(self, count):
        self.keys = Keys()
        self.sshds = []
        try:
            self.network = networks.Network(count)
            self.enter = self.network.hosts[0].enter
            for number in range(count):
                self.keys.alias(f"host{number}", self.network.address(number), 22)
                self.sshds.append(Sshd(self.keys, self.network.address(number), 22, self.network.hosts[number].enter))
        except BaseException:
            self.close()
            raise

    def environment(self):
        return os.environ | {"ANELLO_SSH": self.keys.ssh()}

    def close(self):
        for sshd in self.sshds:
            sshd.close()
        if hasattr(self, "network"):
            self.network.close()
        self.keys.close()
