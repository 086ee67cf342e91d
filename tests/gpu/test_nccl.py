"""Which NCCL the programs of a run use: the machine's, or that of the bundle."""

import subprocess

import pytest
from suite import places


def library(folder, version):
    """A libnccl.so.2 that says it is of this version."""
    folder.mkdir(parents=True)
    code = f"int ncclGetVersion(int* version) {{ *version = {version}; return 0; }}"
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", folder / "libnccl.so.2"], input=code, text=True, check=True)
    return folder


@pytest.mark.parametrize(
    "here, words",
    [
        (22809, "NCCL 2.32 of the bundle, because this machine has 2.28, and ranks share a GPU from 2.30 on"),
        (23007, "NCCL 2.30 of this machine"),
        (None, "NCCL 2.32 of the bundle, because this machine has none"),
    ],
)
def test_the_newer_nccl_is_taken_where_ranks_need_it(tmp_path, monkeypatch, here, words):
    """ldd is a script that looks in LD_LIBRARY_PATH, as the loader does, and then where the machine has NCCL."""
    programs, of_machine = tmp_path / "bin", tmp_path / "cuda/lib64"
    programs.mkdir()
    if here:
        library(of_machine, here)
    (programs / "folio-worker").write_text("#!/bin/sh\n")
    (programs / "ldd").write_text(f'''#!/bin/sh
    IFS=:; for folder in $LD_LIBRARY_PATH {of_machine}; do
        if [ -e "$folder/libnccl.so.2" ]; then echo "  libnccl.so.2 => $folder/libnccl.so.2 (0x0)"; exit; fi
    done; echo "  libnccl.so.2 => not found"''')
    for path in programs.iterdir():
        path.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    found = places.Places(programs, environment={"PATH": f"{programs}:/usr/bin:/bin"})
    found.candidates = []  # of the machine that this runs on
    carried = library(tmp_path / "bundle/nccl", 23203)
    assert found.take_nccl(carried) == words
    path = found.environment().get("LD_LIBRARY_PATH", "")
    assert path.startswith(str(carried)) == ("of the bundle" in words)
    assert found.take_nccl(None) is None and found.take_nccl(tmp_path / "empty") is None
