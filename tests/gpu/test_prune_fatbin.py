"""prune_fatbin.py over files of our own making."""

import struct
import subprocess
import sys

import prune_fatbin
import pytest


def entry(arch, code, head=64):
    return struct.pack("<HHIQ12xI", 2, 0x101, head, len(code), arch).ljust(head, b"h") + code


def container(*entries):
    rest = b"".join(entries)
    return struct.pack("<IHHQ", prune_fatbin.MARK, 1, 16, len(rest)) + rest


def elf(**contents):
    """An ELF file with nothing but sections; a name's underscore stands for its dot."""
    names = b"\0"
    heads, body = [b"\0" * 64], b""
    for name, content in [*contents.items(), ("shstrtab", None)]:
        at, name = len(names), ("." + name if not name.startswith("__") else name)
        names += name.encode() + b"\0"
        content = names if content is None else content
        heads.append(struct.pack("<IIQQQQ", at, 1, 0, 0, 64 + len(body), len(content)).ljust(64, b"\0"))
        body += content
    start = b"\x7fELF\x02\x01".ljust(0x28, b"\0") + struct.pack("<Q", 64 + len(body))
    start = start.ljust(0x3A, b"\0") + struct.pack("<HHH", 64, len(heads), len(heads) - 1)
    return bytearray(start.ljust(64, b"\0") + body + b"".join(heads))


def test_other_code_is_cleared_and_nothing_moves():
    fat = container(entry(80, b"A" * 40), entry(90, b"B" * 24, head=112)) + b"\0" * 8 + container(entry(120, b"C" * 16))
    data = elf(text=b"T" * 32, nv_fatbin=fat, __nv_relfatbin=container(entry(90, b"D" * 8), entry(100, b"E" * 8)))
    before = bytes(data)
    assert prune_fatbin.prune(data, {90}) == (32, 64)
    assert len(data) == len(before)
    for gone in (b"A" * 40, b"C" * 16, b"E" * 8):
        before = before.replace(gone, b"\0" * len(gone))
    assert bytes(data) == before, "the headers and the rest are as they were"


def test_several_architectures_are_kept():
    data = elf(nv_fatbin=container(entry(80, b"A" * 8), entry(90, b"B" * 8), entry(100, b"C" * 8)))
    assert prune_fatbin.prune(data, {80, 100}) == (16, 8)


@pytest.mark.parametrize(
    "data, words",
    [
        (bytearray(b"#!/bin/sh"), "no 64-bit ELF file"),
        (elf(text=b"T" * 8), "no GPU code for architecture 90; it has code for none"),
        (elf(nv_fatbin=container(entry(80, b"A" * 8))), "no GPU code for architecture 90; it has code for 80"),
        (elf(nv_fatbin=b"unknown!" * 4), "no container of GPU code"),
        (elf(nv_fatbin=container(entry(90, b"B" * 8)[:-4])), "no GPU code at byte"),
    ],
)
def test_a_file_that_is_not_understood_is_refused(tmp_path, data, words):
    (tmp_path / "in").write_bytes(data)
    done = subprocess.run([sys.executable, prune_fatbin.__file__, tmp_path / "in", tmp_path / "out", "90"],
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 1 and words in done.stderr, done.stderr
    assert not (tmp_path / "out").exists()
