"""Perplexity by llama.cpp, through llama-cpp-python: llama_perplexity.py MODEL.gguf WINDOWS.json GIVEN [--threads N]

Prints the mean negative log-probability of the tokens of each window behind the first GIVEN, as a JSON list."""

import argparse
import json

import llama_cpp as lc
import llama_peer
import numpy

BATCH = 512


def of_window(context, batch, ids, given, vocabulary):
    """The tokens go through in batches, and each one's logits judge the next."""
    llama_peer.clear(context)
    lost = []
    for start in range(0, len(ids), BATCH):
        part = ids[start:start + BATCH]
        llama_peer.fill(batch, [(token, start + i, 0, True) for i, token in enumerate(part)])
        llama_peer.decode(context, batch)
        for i in range(len(part)):
            at = start + i + 1
            if given <= at < len(ids):
                logits = numpy.ctypeslib.as_array(lc.llama_get_logits_ith(context, i), (vocabulary,)).astype(numpy.float64)
                most = logits.max()
                lost.append(most + numpy.log(numpy.exp(logits - most).sum()) - logits[ids[at]])
    return float(numpy.mean(lost))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("windows")
    parser.add_argument("given", type=int)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    with open(args.windows) as file:
        windows = json.load(file)
    model = llama_peer.load(args.model)
    params = lc.llama_context_default_params()
    params.n_ctx = max(map(len, windows))
    params.n_batch = params.n_ubatch = BATCH
    params.n_threads = params.n_threads_batch = args.threads
    context = lc.llama_init_from_model(model, params)
    batch = lc.llama_batch_init(BATCH, 0, 1)
    vocabulary = lc.llama_vocab_n_tokens(lc.llama_model_get_vocab(model))
    print(json.dumps([of_window(context, batch, ids, args.given, vocabulary) for ids in windows]))


if __name__ == "__main__":
    main()
