"""llama.cpp through llama-cpp-python: llama_peer.py MODEL.gguf OUT --threads N [--large]"""

import argparse
import ctypes
import sys

import llama_cpp as lc

import cases


def decode(context, batch):
    status = lc.llama_decode(context, batch)
    if status != 0:
        sys.exit(f"llama_decode failed with {status}")


def fill(batch, rows):
    """rows: (token, position, sequence, wants logits)"""
    batch.n_tokens = len(rows)
    for i, (token, position, sequence, logits) in enumerate(rows):
        batch.token[i] = token
        batch.pos[i] = position
        batch.n_seq_id[i] = 1
        batch.seq_id[i][0] = sequence
        batch.logits[i] = logits


def load(path):
    """The model, without llama.cpp's log."""
    lc.llama_backend_init()
    load.quiet = lc.llama_log_callback(lambda *_: None)  # kept, because llama.cpp calls it later
    lc.llama_log_set(load.quiet, ctypes.c_void_p(0))
    return lc.llama_model_load_from_file(path.encode(), lc.llama_model_default_params())


def clear(context):
    lc.llama_memory_clear(lc.llama_get_memory(context), True)


def prefill(context, batch, sequence, length, seed, chunk=512):
    ids = cases.prompt_ids(length, seed)
    for start in range(0, length, chunk):
        part = ids[start:start + chunk]
        fill(batch, [(token, start + i, sequence, start + i == length - 1)
                     for i, token in enumerate(part)])
        decode(context, batch)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--large", action="store_true", help="the cases for large models")
    args = parser.parse_args()
    model = load(args.model)
    results = {}
    prefills, decodes = (cases.LARGE_PREFILL, cases.LARGE_DECODE) if args.large else (cases.PREFILL, cases.DECODE)
    for sequences, length, evict in [(1, n, None) for n in prefills] + decodes:
        if evict:
            continue  # it has no eviction
        params = lc.llama_context_default_params()
        params.n_ctx = sequences * (length + 64)
        params.n_seq_max = sequences
        params.n_batch = params.n_ubatch = 512
        params.n_threads = params.n_threads_batch = args.threads
        params.type_k = params.type_v = lc.GGML_TYPE_F16
        context = lc.llama_init_from_model(model, params)
        batch = lc.llama_batch_init(512, 0, 1)
        if evict is None:
            def measure(i):
                clear(context)
                start = cases.clock()
                prefill(context, batch, 0, length, i)
                return length / (cases.clock() - start)
            results[f"prefill {length}"] = cases.best(measure)
        else:
            clear(context)
            for s in range(sequences):
                prefill(context, batch, s, length, s)

            def measure(i):
                first = length + i * 20
                start = cases.clock()
                for step in range(20):
                    fill(batch, [(1000 + s, first + step, s, True) for s in range(sequences)])
                    decode(context, batch)
                return sequences * 20 / (cases.clock() - start)
            results[f"decode {sequences} x {length}"] = cases.best(measure)
        print({k: round(v) for k, v in list(results.items())[-1:]}, file=sys.stderr)
        lc.llama_batch_free(batch)
        lc.llama_free(context)
    cases.emit(args.out, "llama.cpp", results)


if __name__ == "__main__":
    main()
