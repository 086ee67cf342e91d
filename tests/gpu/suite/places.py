"""Where our programs are, and the shared libraries that they need and we do not carry."""

import glob
import os
import pathlib
import re
import shutil
import subprocess
import sys

# What a missing library belongs to, for whoever has to install it.
OWNERS = {
    "libcublasLt": "CUDA's cuBLAS",
    "libcudart": "CUDA's runtime",
    "libnccl": "NCCL",
    "libcuda.so": "NVIDIA's driver",
}
SHARING = (2, 30)  # NCCL's version with which ranks may share a GPU
# In a process of its own: one that has loaded NCCL had better start no others.
ASK_NCCL = "import ctypes, sys; n = ctypes.c_int(); ctypes.CDLL(sys.argv[1]).ncclGetVersion(ctypes.byref(n)); print(n.value)"
MISSING = re.compile(r"^\s*(\S+) => not found", re.M)


def cuda_folders(environment=os.environ):
    """Folders where CUDA's libraries may lie, the likeliest first; those of Python wheels last."""
    roots = [environment.get(name) for name in ("CUDA_HOME", "CUDA_PATH", "NCCL_ROOT")] + ["/usr/local/cuda"]
    roots += sorted(glob.glob("/usr/local/cuda-*"), reverse=True)
    found = [f"{root}/{lib}" for root in roots if root for lib in ("lib64", "lib", "targets/x86_64-linux/lib")]
    for path in site_folders():
        found += sorted(glob.glob(f"{path}/nvidia/*/lib"))
    return [path for path in dict.fromkeys(found) if os.path.isdir(path)]


def site_folders():
    """Where this Python, and the one that a shell would start, have their packages."""
    found = list(sys.path)
    other = shutil.which("python3")
    if other:
        said = subprocess.run([other, "-c", "import sys; print('\\n'.join(sys.path))"], capture_output=True, text=True)
        found += said.stdout.splitlines()
    return [path for path in dict.fromkeys(found) if path.endswith("-packages")]


class Places:
    """Programs of one folder, and the environment to start them in."""

    def __init__(self, programs, libraries=(), environment=os.environ):
        self.programs = pathlib.Path(programs)
        self.base = dict(environment)
        self.folders = [str(path) for path in libraries if os.path.isdir(path)]
        self.candidates = cuda_folders(environment)

    def __getitem__(self, name):
        return str(self.programs / name)

    def environment(self, **more):
        path = [*self.folders, *filter(None, self.base.get("LD_LIBRARY_PATH", "").split(":"))]
        return {**self.base, **({"LD_LIBRARY_PATH": ":".join(path)} if path else {}), **more}

    def why_not(self, name):
        """None where the program can start, else what it lacks. Finds libraries on the way."""
        if not os.access(self[name], os.X_OK):
            return f"{name} was not built: it is not in {self.programs}"
        for _ in range(4):
            missing = self.missing(name)
            if not missing:
                return None
            more = [
                folder
                for folder in self.candidates
                if folder not in self.folders and any(os.path.exists(f"{folder}/{one}") for one in missing)
            ]
            if not more:
                return self.explain(name, missing)
            self.folders += more
        return self.explain(name, self.missing(name))

    def nccl_version(self):
        """(major, minor) of the one that folio-worker is linked with, or None where that cannot be told."""
        if self.why_not("folio-worker"):
            return None
        said = subprocess.run(["ldd", self["folio-worker"]], capture_output=True, text=True, env=self.environment())
        path = re.search(r"libnccl\.so\S* => (/\S+)", said.stdout)
        told = path and subprocess.run([sys.executable, "-c", ASK_NCCL, path[1]], capture_output=True, text=True,
                                       env=self.environment())  # fmt: skip
        if not told or told.returncode != 0:
            return None
        number = int(told.stdout)
        return number // 10000, number % 10000 // 100

    def take_nccl(self, folder):
        """Has programs use the NCCL of this folder where the machine has none, or one with which ranks cannot share a
        GPU. Words for what is taken, or None."""
        if not folder or not os.path.exists(f"{folder}/libnccl.so.2"):
            return None
        here = self.nccl_version()
        if here and here >= SHARING:
            return f"NCCL {here[0]}.{here[1]} of this machine"
        self.folders.insert(0, str(folder))
        taken = self.nccl_version()
        if taken is None:  # not on this machine, so the one that is here is as good
            self.folders.remove(str(folder))
            return None
        instead = f"has {here[0]}.{here[1]}, and ranks share a GPU from {SHARING[0]}.{SHARING[1]} on" if here else "has none"
        return f"NCCL {taken[0]}.{taken[1]} of the bundle, because this machine {instead}"

    def missing(self, name):
        ldd = shutil.which("ldd")
        if not ldd:
            return []
        said = subprocess.run([ldd, self[name]], capture_output=True, text=True, env=self.environment())
        return sorted(set(MISSING.findall(said.stdout)))

    @staticmethod
    def explain(name, missing):
        told = []
        for library in missing:
            owner = next((words for start, words in OWNERS.items() if library.startswith(start)), None)
            told.append(f"{library} ({owner})" if owner else library)
        return f"{name} wants {', '.join(told)}: install it, or name its folder in LD_LIBRARY_PATH"


def find_tool(name, environment=os.environ):
    """A tool of the CUDA Toolkit, which need not be on the PATH; the pinned one, in FOLIO_CUDA_TOOLS, is the last choice."""
    found = shutil.which(name)
    if found:
        return found
    roots = [environment.get("CUDA_HOME"), "/usr/local/cuda", *sorted(glob.glob("/usr/local/cuda-*"), reverse=True),
             environment.get("FOLIO_CUDA_TOOLS")]  # fmt: skip
    for root in filter(None, roots):
        for place in (f"{root}/bin/{name}", f"{root}/compute-sanitizer/{name}"):
            if os.access(place, os.X_OK):
                return place
    return None
