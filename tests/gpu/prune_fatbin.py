#!/usr/bin/env python3
"""prune_fatbin.py IN OUT ARCH...: copies a shared object and clears its GPU code for other architectures (90: Hopper).

Nothing moves, so that every address in the file stays right. The code that is cleared becomes zeros, which pack to nothing.
A driver loads no code for another architecture than its GPU's.

NVIDIA does not document fat binaries. Those of CUDA 12 and 13 look as follows. A section holds containers one behind the
other. A container has a header of 16 bytes (mark, version, length of the header, length of the rest), and then
entries. An entry's header has its own length at byte 4, that of the code at byte 8, and the architecture at byte 28.
"""

import struct
import sys

SECTIONS = (".nv_fatbin", "__nv_relfatbin")
MARK = 0xBA55ED50
CONTAINER = struct.Struct("<IHHQ")  # mark, version, bytes of this header, bytes of the entries
ENTRY = struct.Struct("<HHIQ12xI")  # kind, version, bytes of this header, bytes of the code, architecture


class NotUnderstood(ValueError):
    """A file that is not laid out as expected. Nothing is written then."""


def sections(data):
    """{name: (offset, bytes)} of a 64-bit little-endian ELF file."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise NotUnderstood("the file is no 64-bit ELF file")
    (table,) = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    heads = [struct.unpack_from("<I20xQQ", data, table + i * size) for i in range(count)]
    texts = heads[names][1]
    return {data[texts + name : data.index(b"\0", texts + name)].decode(): (at, length) for name, at, length in heads}


def entries(data, at, end):
    """(architecture, first byte, last byte) of the code in a section."""
    while at < end:
        if data[at : at + 4] == b"\0\0\0\0":  # between containers
            at += 4
            continue
        mark, version, head, rest = CONTAINER.unpack_from(data, at)
        if mark != MARK or version != 1 or at + head + rest > end:
            raise NotUnderstood(f"there is no container of GPU code at byte {at}")
        entry, at = at + head, at + head + rest
        while entry < at:
            _, _, head, length, arch = ENTRY.unpack_from(data, entry)
            code = entry + head
            if head < ENTRY.size or code + length > at:
                raise NotUnderstood(f"there is no GPU code at byte {entry}")
            yield arch, code, code + length
            entry = code + length


def prune(data, wanted):
    """Clears the code of `data`, a bytearray, for all but the wanted architectures. Returns the bytes (kept, cleared)."""
    found = sections(data)
    all_code = [one for name in SECTIONS if name in found for one in entries(data, found[name][0], sum(found[name]))]
    missing = sorted(set(wanted) - {arch for arch, _, _ in all_code})
    if missing:
        have = ", ".join(map(str, sorted({arch for arch, _, _ in all_code}))) or "none"
        raise NotUnderstood(f"the file has no GPU code for architecture {missing[0]}; it has code for {have}")
    kept = cleared = 0
    for arch, first, last in all_code:
        if arch in wanted:
            kept += last - first
        else:
            data[first:last] = bytes(last - first)
            cleared += last - first
    return kept, cleared


def main(source, target, *archs):
    with open(source, "rb") as file:
        data = bytearray(file.read())
    try:
        kept, cleared = prune(data, {int(arch) for arch in archs})
    except (NotUnderstood, struct.error, ValueError) as error:
        sys.exit(f"prune_fatbin: {source}: {error}")
    with open(target, "wb") as file:
        file.write(data)
    print(f"prune_fatbin: {kept >> 20} MiB of GPU code are kept, {cleared >> 20} MiB are cleared")


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit("usage: prune_fatbin.py IN OUT ARCH...")
    main(*sys.argv[1:])
