"""The files of a manager's journal, as far as faults must know them: frames, and how to tear and damage the last ones."""

HEAD = 12  # the length of the entry, and two checksums
WHOLE = b"\x48\x01"  # the entry that says so (field 9 of folio.state.v1.JournalEntry)


def frames(bytes_):
    """(offset, bytes) of each whole frame of a file."""
    found, at = [], 0
    while at + HEAD <= len(bytes_):
        end = at + HEAD + int.from_bytes(bytes_[at : at + 4], "little")
        if end > len(bytes_):
            break
        found.append((at, bytes_[at:end]))
        at = end
    return found


def is_whole(path):
    """Whether the file has all that is there, so that no other one is needed."""
    return any(frame[HEAD:] == WHOLE for _, frame in frames(path.read_bytes()))


def tear(path, chance):
    """Appends the beginning of one more entry, as a manager does that dies in the middle of a write. Nobody has heard of it."""
    _, last = frames(path.read_bytes())[-1]
    with open(path, "ab") as file:
        file.write(last[: chance.randint(1, len(last) - 1)])


def cut(path, chance):
    """Takes the end of the last entry away."""
    bytes_ = path.read_bytes()
    at, last = frames(bytes_)[-1]
    path.write_bytes(bytes_[: at + chance.randint(1, len(last) - 1)])


def acknowledged(path):
    """How many bytes of this file were written when the last reply left, or 0 if another file was."""
    name, size, _ = (path.parent / "acknowledged").read_text().split()
    number = path.name.removeprefix("journal-")
    return int(size) if int(name.removeprefix("journal-")) == int(number) else 0


def flip(path, chance, most=(200, 2_000, 20_000)):
    """Changes a bit near the end, at most as many bytes before it as one of `most` says."""
    bytes_ = bytearray(path.read_bytes())
    begin = len(frames(bytes_)[0][1])  # the header stays, without which nothing is believed
    at = chance.randint(max(begin, len(bytes_) - chance.choice(most)), len(bytes_) - 1)
    bytes_[at] ^= 1 << chance.randrange(8)
    path.write_bytes(bytes_)
