"""The gate on kernels' resources lets nothing grow, appear or vanish unseen."""

import pathlib
import subprocess
import sys

import pytest

GATE = pathlib.Path(__file__).with_name("resources.py")
DUMP = """\
Fatbin elf code:
================
arch = sm_80
Resource usage:
 Common:
  GLOBAL:0
 Function _ZN5folio7kernels4cuda12_GLOBAL__N_13RowINS0_4bf16ELi4EEEvPKT_:
  REG:{registers} STACK:{stack} SHARED:32 LOCAL:0 CONSTANT[0]:388 TEXTURE:0 SURFACE:0 SAMPLER:0
 Function _ZN5folio7kernels4cuda12_GLOBAL__N_1{other}Ev:
  REG:8 STACK:0 SHARED:0 LOCAL:0 CONSTANT[0]:388 TEXTURE:0 SURFACE:0 SAMPLER:0
"""


class Gate:
    def __init__(self, path):
        self.path = path
        self.build()
        self.compiler("13.0.88")

    def build(self, registers=20, stack=0, other="4Move"):
        self.script("cuobjdump", f"cat <<'END'\n{DUMP.format(registers=registers, stack=stack, other=other)}END")

    def compiler(self, version):
        self.script("nvcc", f"echo Cuda compilation tools, release 13.0, V{version}")

    def script(self, name, body):
        (self.path / name).write_text(f"#!/bin/sh\n{body}\n")
        (self.path / name).chmod(0o755)

    def run(self, *options):
        return subprocess.run([sys.executable, GATE, self.path / "cuobjdump", "library", self.path / "table", *options],
                              capture_output=True, text=True, timeout=60)


@pytest.fixture
def gate(tmp_path):
    gate = Gate(tmp_path)
    assert gate.run("--rewrite").returncode == 0
    return gate


def test_the_table_names_kernels_plainly(gate):
    rows = (gate.path / "table").read_text().splitlines()
    assert rows[2:] == ["sm_80 Move 8 0 0", "sm_80 Row<bf16,4> 20 0 32"]
    assert gate.run().returncode == 0


@pytest.mark.parametrize("change, said", [
    ({"registers": 21}, "sm_80 Row<bf16,4>: 21 registers, 20 before"),
    ({"stack": 8}, "sm_80 Row<bf16,4>: 8 spilled bytes, 0 before"),
    ({"other": "4Swap"}, "sm_80 Swap: no row in the table"),
    ({"other": "4Swap"}, "sm_80 Move: there is no such kernel"),
])
def test_what_grows_appears_or_vanishes_fails(gate, change, said):
    gate.build(**change)
    done = gate.run()
    assert done.returncode == 1 and said in done.stderr
    assert gate.run("--rewrite").returncode == 0 and gate.run().returncode == 0


def test_an_architecture_that_was_not_built_passes(gate):
    with (gate.path / "table").open("a") as table:
        table.write("sm_100 Move 9 0 0\n")
    assert gate.run().returncode == 0


def test_what_shrinks_passes(gate):
    gate.build(registers=19)
    assert gate.run().returncode == 0


def test_another_compiler_may_take_other_registers_but_not_spill(gate):
    gate.compiler("13.1.0")
    gate.build(registers=30)
    assert gate.run().returncode == 0
    gate.build(registers=30, stack=4)
    assert gate.run().returncode == 1
