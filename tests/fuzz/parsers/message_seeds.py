"""Inputs of records: messages of the protocol in its wire format, and bytes that decide what workers do."""
import random
import struct

FULL, PAGED_EVICTION, STREAMING_LLM = 1, 2, 3  # fields of Policy
RESUME_TOKEN = b"0123456789abcdef"


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out + bytes([number]))


def message(*fields):
    """Pairs of a field's number and its value: a number, bytes, text or a list of numbers."""
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
            continue
        if isinstance(value, list):
            value = b"".join(varint(each) for each in value)
        elif isinstance(value, str):
            value = value.encode()
        out += varint(number << 3 | 2) + varint(len(value)) + value
    return out


def record(kind, data):
    return struct.pack("<BH", kind, len(data)) + data


def cache_options(policy, budget=0):
    options = [(1, message((policy, b"")))]
    return message(*options, (2, budget), (3, 0), (4, 4)) if budget else message(*options)


def session():
    """The kinds are those of session.cc."""
    message_of_first, plausible, plausible_of_second, damaged, end, time, order = 0, 3, 4, 5, 6, 7, 8
    numbers = random.Random(7)
    for seed in range(12):
        parts = [record(plausible, numbers.randbytes(120)), record(plausible_of_second, numbers.randbytes(60)),
                 record(damaged, numbers.randbytes(40)), record(order, numbers.randbytes(3)),
                 record(plausible, numbers.randbytes(80)), record(end, bytes([seed & 1])), record(time, bytes([seed])),
                 record(plausible_of_second, numbers.randbytes(120))]
        yield b"".join(parts)
    for policy, budget in (FULL, 0), (PAGED_EVICTION, 8), (STREAMING_LLM, 12):
        opened = message((1, 5), (2, list(range(10))), (3, 30), (4, cache_options(policy, budget)), (6, "a label"),
                         (7, RESUME_TOKEN), (11, 1), (15, 1), (16, "a tenant"))
        commit = message((1, 1), (2, 1), (3, 10), (4, [7]))
        ack = message((1, 1), (2, 1), (3, 1))
        named = message((1, 1), (2, 1))
        claim = message((1, 6), (2, 1), (3, RESUME_TOKEN), (5, 1), (8, "a tenant"))
        yield b"".join([
            record(message_of_first, message((3, opened))), record(message_of_first, message((4, commit))),
            record(message_of_first, message((5, ack), (9, message((1, 1), (2, 1), (3, 1))))),
            record(message_of_first, message((10, named), (8, message((1, 4), (2, 3))))), record(end, b"\1"),
            record(message_of_first, message((7, claim))), record(message_of_first, message((6, message((1, 1), (2, 2), (3, 1)))))])


def layer_pages(pages):
    return message((1, pages), (2, [1] * len(pages)))


def journal_sequence(number, policy, budget, layers, length, parked=0, swap=0, slots=()):
    """Two layers with these pages, which hold all tokens but the last one."""
    fields = [(1, number), (2, 1), (3, 1), (4, list(range(length + 1))), (5, 8), (6, 20), (7, cache_options(policy, budget)),
              (11, "a label"), (12, RESUME_TOKEN), (13, "a tenant"), (16, 1000), (17, 1), (19, 1), (21, 1),
              (28, 0 if parked and not swap else length)]
    for pages in layers:
        held = [(1, layer_pages(pages))] if pages else []
        runs = [(2, [0, length])] if pages or swap else []
        fields.append((29, message(*held, *runs)))
    fields += [(33, parked), (34, swap)] + ([(35, list(slots))] if slots else [])
    return message((5, message(*fields)))


def journal():
    """The kinds are those of journal.cc."""
    entry, header, next_bytes, damage, steps = 0, 1, 2, 3, 4
    layout = message((1, "m"), (2, "f"), (3, 2), (4, 1), (5, 8), (6, 4), (7, 1))
    memory = message((2, 32 * 128))

    def head(continues, boot="this boot"):
        return record(header, message((1, message((1, 1), (2, "folio"), (3, boot), (4, 1), (5, 1), (6, 2), (8, continues)))))

    pool = record(entry, message((2, message((1, b"a pool"), (2, layout), (3, 32), (4, 8), (5, memory), (6, "cpu")))))
    worker = record(entry, message((3, message((1, 1), (2, "w"), (3, "session"), (4, message((1, 1)))))))
    whole = record(entry, message((9, 1)))
    full = record(entry, journal_sequence(1, FULL, 0, [[0, 1, 2, 3], [4, 5, 6, 7]], 10))
    evicts = record(entry, journal_sequence(2, PAGED_EVICTION, 12, [[8, 9, 10, 11], [12, 13, 14, 15]], 12))
    parked = record(entry, journal_sequence(3, STREAMING_LLM, 12, [[], []], 10, parked=1))
    swapped = record(entry, journal_sequence(4, FULL, 0, [[], []], 8, parked=1, swap=3, slots=[0, 1, 2, 3]))
    change = record(entry, message((6, message((1, 1), (4, 11), (5, [9])))))
    granted = record(entry, message((6, message((1, 1), (3, layer_pages([16])), (3, layer_pages([17])), (4, 12), (5, [9])))))
    plan = message((1, 2), (2, 3), (4, message((1, [1, 1]))))
    drop = record(entry, message((6, message((1, 2), (4, 13), (5, [9]), (6, plan)))))
    dropped = record(entry, message((6, message((1, 2), (2, 1), (4, 13)))))
    quarantine = record(entry, message((8, message((1, 1), (2, layer_pages([20, 21])), (3, [7])))))
    numbers = random.Random(8)
    work = record(steps, numbers.randbytes(100))
    yield head(0) + pool + worker + full + change + granted + work
    yield head(0) + pool + worker + evicts + drop + dropped + quarantine + whole + work
    yield head(0) + pool + worker + parked + swapped + full + work
    yield head(0) + pool + worker + full + evicts + head(1) + pool + worker + evicts + quarantine + whole + drop + work
    yield head(0, "another boot") + pool + worker + full + swapped + work
    yield head(0) + pool + full + record(entry, message((7, 1))) + record(entry, message((4, 1))) + record(entry, message((10, 1)))
    yield head(0) + pool + full + record(damage, b"\5\1") + record(next_bytes, bytes(16)) + work
