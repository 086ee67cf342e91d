#!/usr/bin/env python3
"""Perplexity of a model's file by Folio, with each way to hold its weights, beside llama.cpp's.

  tests/bench/peers/perplexity.py MODEL.gguf TEXT OUT.json [--llama PYTHON]

The text is cut into windows of so many tokens by Folio's tokenizer, and the tokens behind the first 32 of each are judged. Models that
want a token at the front (`--first`) get it in each window. PYTHON has llama-cpp-python (run.sh makes it), and without it Folio is
measured alone. The programs are those of FOLIO_BIN (default build/bin)."""

import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "e2e"))

from node import Node, cache, tokens  # noqa: E402
from stubs import inference_pb2  # noqa: E402

GIVEN = 32
MOST_BYTES = 1 << 20  # of a request's text


def windows_of(stub, text, first, size, most):
    size -= len(first)
    ids = list(stub.Tokenize(inference_pb2.TokenizeRequest(input=inference_pb2.Input(text=text)), timeout=60).ids)
    return [first + ids[at:at + size] for at in range(0, len(ids) - size + 1, size)][:most]


def by_folio(model, weights, cut):
    """The windows that `cut` makes with the worker's tokenizer, and their losses."""
    with Node(pool="512MiB") as node:
        stub = node.start_worker(model=model, flags=[f"--weights={weights}"])
        windows = cut(stub)
        losses = []
        for ids in windows:
            request = inference_pb2.ScoreRequest(input=tokens(ids[:GIVEN]), continuation=tokens(ids[GIVEN:]), cache=cache("full"))
            judged = stub.Score(request, timeout=600).tokens
            losses.append(-sum(token.logprob for token in judged) / len(judged))
        return windows, losses


def by_llama(python, model, windows):
    script = pathlib.Path(__file__).with_name("llama_perplexity.py")
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(windows, file)
        file.flush()
        printed = subprocess.run([python, script, model, file.name, str(GIVEN)], check=True, capture_output=True, text=True).stdout
    return json.loads(printed)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("text")
    parser.add_argument("out")
    parser.add_argument("--llama")
    parser.add_argument("--first", type=int, nargs="*", default=[], help="tokens in front of each window")
    parser.add_argument("--size", type=int, default=1024, help="tokens of a window")
    parser.add_argument("--windows", type=int, default=8, help="at most")
    args = parser.parse_args()
    text = pathlib.Path(args.text).read_bytes()[:MOST_BYTES].decode(errors="ignore")
    windows = None
    losses = {}
    for way in ("as-is", "bfloat16"):
        def cut(stub, windows=windows):
            return windows or windows_of(stub, text, args.first, args.size, args.windows)

        windows, losses[way] = by_folio(args.model, way, cut)
        print(f"{way:9}  {math.exp(sum(losses[way]) / len(windows)):.4f}", flush=True)
    if args.llama:
        losses["llama.cpp"] = by_llama(args.llama, args.model, windows)
    of = {way: math.exp(sum(each) / len(each)) for way, each in losses.items()}
    if args.llama:
        print(f"llama.cpp  {of['llama.cpp']:.4f}, Folio as-is {of['as-is'] / of['llama.cpp']:.4f} of it")
    result = {"model": pathlib.Path(args.model).name, "windows": len(windows), "size": args.size, "perplexity": of}
    pathlib.Path(args.out).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
