"""Containers of Folio's images, each with namespaces of its own, run by runc without a container engine.

They get what a strict Pod Security level gives a pod: user 10001, no capability, no new privileges, a read-only root.
A container shares with the others the directories that it is told to, the network of another container if it is told to,
and nothing else.
"""

import functools
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

STORAGE = os.environ.get("FOLIO_IMAGES", "")
VERSION = os.environ.get("FOLIO_IMAGES_TAG", "")
IMAGES = ("folio-manager", "folio-worker", "folio-gateway", "folioctl")
NAMESPACES = ("pid", "network", "ipc", "uts", "mount")
USER = 10001
# Reads a page, and sends JSON first if there is any.
READ = """import sys, urllib.request
request = urllib.request.Request(sys.argv[1], sys.argv[2].encode() or None, {"Content-Type": "application/json"})
print(urllib.request.urlopen(request, timeout=120).read().decode())"""


def storage(*arguments):
    """Output of buildah on the storage that run.sh has filled."""
    command = ["buildah", "--storage-driver", "vfs", "--root", f"{STORAGE}/root", "--runroot", f"{STORAGE}/run", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


class Image:
    """An image of the storage, with a writable copy of its files that nothing writes to."""

    mounts = ()  # beside those of every container

    def __init__(self, name):
        self.name = f"localhost/{name}:{VERSION}"
        self.inspected = json.loads(storage("inspect", "--type=image", self.name))["OCIv1"]
        self.config = self.inspected["config"]
        self.container = storage("from", self.name)
        self.root = pathlib.Path(storage("mount", self.container))

    def remove(self):
        storage("rm", self.container)

    def files(self):
        return [path for path in self.root.rglob("*")]

    def size(self):
        return sum(path.lstat().st_size for path in self.files() if path.is_file() and not path.is_symlink())


class Host:
    """The place where containers run: a directory for sockets, which is all that they share, and a model that they read."""

    def __init__(self, model):
        self.directory = tempfile.TemporaryDirectory(prefix="folio-images.")
        self.path = pathlib.Path(self.directory.name)
        self.sockets = self.path / "sockets"
        self.sockets.mkdir()
        os.chown(self.sockets, USER, USER)
        self.sockets.chmod(0o770)
        self.model, self.containers = pathlib.Path(model), []

    def run(self, image, *arguments, name, network_of=None):
        container = Container(self, image, arguments, name, network_of)
        self.containers.append(container)
        return container

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for container in reversed(self.containers):
            container.remove()
        self.directory.cleanup()


class Container:
    """One running container. `pid` is its first process as this machine counts; inside, that process is 1."""

    def __init__(self, host, image, arguments, name, network_of=None):
        self.host, self.name = host, f"{host.path.name}-{name}".replace(".", "-")
        self.namespaces = [{"type": kind} for kind in NAMESPACES]
        if network_of:
            self.namespaces[NAMESPACES.index("network")]["path"] = f"/proc/{network_of.pid}/ns/net"
        self.bundle = host.path / name
        self.bundle.mkdir()
        self.log = self.bundle / "log"
        (self.bundle / "config.json").write_text(json.dumps(self.specification(image, arguments)))
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                ["runc", "--root", host.path / "runc", "run", "--bundle", self.bundle, self.name],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def specification(self, image, arguments):
        """The container as the runtime specification of OCI writes it."""
        none = dict.fromkeys(["bounding", "effective", "inheritable", "permitted", "ambient"], [])
        binds = [(self.host.sockets, "/run/folio", "rw"), (self.host.model.parent, "/models", "ro")]
        mounts = [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=64k"]},
        ]
        mounts += [
            {"destination": at, "type": "none", "source": str(source), "options": ["bind", mode, "nosuid", "nodev", "noexec"]}
            for source, at, mode in binds
        ]
        mounts += image.mounts
        user, group = map(int, image.config["User"].split(":"))
        return {
            "ociVersion": "1.0.2",
            "process": {
                "user": {"uid": user, "gid": group},
                "args": [*image.config["Entrypoint"], *arguments],
                "env": image.config["Env"],
                "cwd": image.config.get("WorkingDir") or "/",
                "capabilities": none,
                "noNewPrivileges": True,
            },
            "root": {"path": str(image.root), "readonly": True},
            "hostname": self.name,
            "mounts": mounts,
            "linux": {
                "namespaces": self.namespaces,
                "cgroupsPath": f"/folio-images/{self.name}",
                "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sched_debug"],
                "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"],
            },
        }

    def runc(self, *arguments, check=True):
        command = ["runc", "--root", self.host.path / "runc", *arguments, self.name]
        return subprocess.run(command, check=check, capture_output=True, text=True).stdout

    def state(self):
        output = self.runc("state", check=False)
        return json.loads(output) if output else {"status": "none", "pid": 0}

    @functools.cached_property
    def pid(self):
        """Known from the first question on, because runc takes long to answer and a test may be in a hurry."""
        deadline = time.monotonic() + 60
        while (state := self.state())["status"] != "running":
            assert self.process.poll() is None and time.monotonic() < deadline, f"{self.name} does not run:\n{self.words()}"
            time.sleep(0.05)
        return state["pid"]

    def words(self):
        return self.log.read_text(errors="replace")

    def read(self, address, body=""):
        """The text of a page that a server in the container's network serves, or nothing."""
        done = subprocess.run(["nsenter", f"--net=/proc/{self.pid}/ns/net", sys.executable, "-c", READ, address, body],
                              capture_output=True, text=True)  # fmt: skip
        return done.stdout if done.returncode == 0 else ""

    def wait(self, timeout=60):
        """The exit status."""
        return self.process.wait(timeout)

    def signal(self, number):
        os.kill(self.pid, number)

    def kill(self):
        """As the kernel ends a container that is out of memory."""
        self.signal(signal.SIGKILL)
        assert self.wait() == 128 + signal.SIGKILL

    def remove(self):
        if self.process.poll() is None:
            # Its child is the container; without it runc ends by itself.
            os.kill(self.pid, signal.SIGKILL)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.runc("delete", "--force", check=False)
