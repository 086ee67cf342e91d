#!/usr/bin/env python3
"""Writes small inputs of each target: seeds.py TARGET FOLDER. They are where a target without a kept corpus begins."""
import json
import pathlib
import struct
import sys


def text(value):
    return struct.pack("<Q", len(value)) + value


def gguf():
    for version in 2, 3:
        fields = text(b"general.alignment") + struct.pack("<II", 4, 32) + text(b"name") + struct.pack("<I", 8) + text(b"tiny")
        fields += text(b"list") + struct.pack("<IIQ", 9, 4, 2) + struct.pack("<II", 1, 2)
        tensor = text(b"weight") + struct.pack("<IQQIQ", 2, 2, 2, 0, 0)
        head = b"GGUF" + struct.pack("<IQQ", version, 1, 3) + fields + tensor
        yield head + bytes(-len(head) % 32) + bytes(32)


def safetensors():
    for dtype, size in ("F32", 16), ("BF16", 8), ("I64", 32):
        head = {"__metadata__": {"format": "pt"}, "a": {"dtype": dtype, "shape": [2, 2], "data_offsets": [0, size]}}
        yield text(json.dumps(head).encode()) + bytes(size)


def model_json():
    yield json.dumps({"a": 7, "b": 1.5e3, "c": False, "d": "text \u00e9", "e": [1, 2], "f": {"g": None}}).encode()
    yield b'{"a":' + b"[" * 70 + b"]" * 70 + b"}"


def request_json():
    yield json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hello"}], "stop": ["\n"], "top_p": 0.5}).encode()
    yield b'{"a":' + b"[" * 70 + b"]" * 70 + b"}"
    yield json.dumps({f"k{i}": i for i in range(20)}).encode()


def http_request():
    yield b"\xffGET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n"
    yield b"\x07POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n{}"
    yield b"\xffPOST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\n{}\r\n0\r\nA: b\r\n\r\n"


if __name__ == "__main__":
    for number, seed in enumerate(globals()[sys.argv[1]]()):
        (pathlib.Path(sys.argv[2]) / f"seed{number}").write_bytes(seed)
