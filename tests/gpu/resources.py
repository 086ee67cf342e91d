#!/usr/bin/env python3
"""What our own kernels take on each architecture, against the committed table.

resources.py CUOBJDUMP LIBRARY TABLE [--rewrite]

Reads registers, spilled bytes (stack and local memory) and static shared memory from the library's device
code. A kernel that takes more of any than its row says, or that has no row, fails; so does a row without
a kernel. `--rewrite` writes the table as things are. The numbers are those of the
compiler that the table's first line names: with another one nothing but spills is compared.
"""

import pathlib
import re
import subprocess
import sys

FUNCTION = re.compile(r"Function (\S+):\s+REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)")
# What a name has from being in a file of its own, with its arguments.
NOISE = re.compile(r"folio::kernels::(cuda::)?|\(anonymous namespace\)::|^void |\(.*")


def measured(cuobjdump, library):
    """{(architecture, kernel): (registers, spilled, shared)}"""
    text = subprocess.run([cuobjdump, "--dump-resource-usage", library], capture_output=True, text=True,
                          check=True).stdout
    names = {}
    for part in text.split("Fatbin elf code:")[1:]:
        arch = re.search(r"arch = (\S+)", part)[1]
        for symbol, registers, stack, shared, local in FUNCTION.findall(part):
            names[arch, symbol] = (int(registers), int(stack) + int(local), int(shared))
    plain = subprocess.run(["c++filt"], input="\n".join(symbol for _, symbol in names), capture_output=True,
                           text=True, check=True).stdout.splitlines()
    found = {}
    for (key, numbers), name in zip(names.items(), plain):
        found[key[0], NOISE.sub("", NOISE.sub("", name)).replace(" ", "")] = numbers
    if not found:
        sys.exit(f"resources: cuobjdump found no kernel in {library}")
    return found


def compiler(cuobjdump):
    nvcc = pathlib.Path(cuobjdump).with_name("nvcc")
    text = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    return re.search(r"V([\d.]+)", text)[1]


def read(table):
    """The table's compiler and its rows."""
    first, *lines = table.read_text().splitlines()
    rows = (line.split() for line in lines if line and not line.startswith("#"))
    return first.split()[-1], {(arch, kernel): tuple(map(int, numbers)) for arch, kernel, *numbers in rows}


def write(table, version, found):
    rows = [f"# Resources of kernels, by nvcc {version}", "# architecture kernel registers spilled-bytes shared-bytes"]
    rows += [f"{arch} {kernel} {registers} {spilled} {shared}"
             for (arch, kernel), (registers, spilled, shared) in sorted(found.items())]
    table.write_text("\n".join(rows) + "\n")


def compare(known, found, same_compiler):
    """What is wrong, one line each."""
    wrong = [f"{arch} {kernel}: no row in the table" for arch, kernel in found.keys() - known.keys()]
    # An architecture that was not built has no kernels at all.
    built = {arch for arch, _ in found}
    wrong += [f"{arch} {kernel}: there is no such kernel" for arch, kernel in known.keys() - found.keys() if arch in built]
    for key in known.keys() & found.keys():
        for what, was, now in zip(("registers", "spilled bytes", "bytes of shared memory"), known[key], found[key]):
            if now > was and (same_compiler or what == "spilled bytes"):
                wrong.append(f"{key[0]} {key[1]}: {now} {what}, {was} before")
    return sorted(wrong)


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--rewrite"]
    if len(arguments) != 3:
        sys.exit(__doc__)
    cuobjdump, library, table = arguments[0], arguments[1], pathlib.Path(arguments[2])
    found, version = measured(cuobjdump, library), compiler(cuobjdump)
    if "--rewrite" in sys.argv:
        write(table, version, found)
        print(f"{len(found)} kernels written to {table.name}")
        return
    known_version, known = read(table)
    if wrong := compare(known, found, version == known_version):
        sys.exit("\n".join([*wrong, "If that is meant, rewrite the table: tests/gpu/resources.py ... --rewrite"]))
    print(f"{len(found)} kernels take no more than the table says")


if __name__ == "__main__":
    main()
