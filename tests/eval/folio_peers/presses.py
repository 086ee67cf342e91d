"""Answers questions with kvpress: a process that runs in kvpress' own environment and imports nothing of Folio.

    presses.py MODEL_DIRECTORY THREADS

It reads one question per line of standard input and writes one line of answers per question, both JSON:

    {"prompt": ids, "tail": ids, "start": 17, "settings": [["KVzipPress", 512], ["full", null]]}
    [{"best": ids, "logprobs": numbers, "tops": [[[id, logprob], ...], ...]}, ...]

The prompt is prefilled under a press, which leaves `budget` tokens of it for each KV head. The tail is then fed at the positions
behind the whole prompt, and its tokens from `start` on are judged. Nothing is forgotten while it is fed."""

import json
import logging
import sys

import kvpress
import torch
from transformers import AutoModelForCausalLM, DynamicCache

TOP = 20


def press_of(name, budget, prompt):
    # A press keeps the whole part of what it is told to keep, so half a token more makes the budget exact.
    return getattr(kvpress, name)(compression_ratio=1 - (budget + 0.5) / prompt)


class Answerer:
    def __init__(self, directory):
        self.model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="sdpa").eval()

    def prefilled(self, ids, name, budget):
        """(logits behind the prompt [1, known], the cache that the press left)"""
        cache = DynamicCache()
        if name == "full" or budget >= ids.shape[1]:
            return self.model(input_ids=ids, past_key_values=cache, logits_to_keep=1).logits[0], cache
        with press_of(name, budget, ids.shape[1])(self.model):
            return self.model(input_ids=ids, past_key_values=cache, logits_to_keep=1).logits[0], cache

    @torch.inference_mode()
    def __call__(self, question):
        ids = torch.tensor([question["prompt"]])
        tail, start = question["tail"], question["start"]
        fed = torch.tensor([tail[:-1]])
        places = torch.arange(ids.shape[1], ids.shape[1] + fed.shape[1])[None]
        answers = []
        for name, budget in question["settings"]:
            first, cache = self.prefilled(ids, name, budget)
            more = self.model(input_ids=fed, past_key_values=cache, position_ids=places).logits[0]
            answers.append(judged(torch.cat([first, more])[start:], tail[start:]))
        return answers


def judged(logits, tokens):
    chances = torch.log_softmax(logits.double(), -1)
    top = chances.topk(TOP)
    return {
        "best": chances.argmax(-1).tolist(),
        "logprobs": chances[torch.arange(len(tokens)), tokens].tolist(),
        "tops": [list(zip(ids, numbers)) for ids, numbers in zip(top.indices.tolist(), top.values.tolist())],
    }


def main():
    logging.disable(logging.WARNING)
    torch.set_num_threads(int(sys.argv[2]))
    answer = Answerer(sys.argv[1])
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
