"""What transformers says of the tiny models of family_models.py, in float32: writes families.json.

K and V are rounded to bfloat16 as the cache holds them. After a compaction the rest decodes over what PagedEviction keeps, which is
computed here from the keys and values of transformers: the mean over KV heads of |V| / |K|, the highest stay.

    make_families.py > families.json
"""

import json
import pathlib
import sys
import tempfile

import numpy as np
import torch
import transformers

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))
import family_models  # noqa: E402

PROMPT, CONTINUATION = 150, 12
PAGE, BUDGET = 16, 64


class StoredCache(transformers.DynamicCache):
    """Holds bfloat16 numbers."""

    def update(self, keys, values, layer, *arguments, **options):
        def stored(x):
            return x.to(torch.bfloat16).to(x.dtype)

        return super().update(stored(keys), stored(values), layer, *arguments, **options)


def kept(keys, values):
    """Positions that stay in a layer; both are [1, KV heads, tokens, dim]."""
    norms = [x[0].double().norm(dim=-1) for x in (keys, values)]
    score = (norms[1] / norms[0]).mean(0).numpy()
    count = len(score)
    free = np.arange(PAGE, count - PAGE)  # sinks and the latest tokens always stay
    # Of equal scores the newer stays.
    best = sorted(free, key=lambda token: (score[token], token))[-(BUDGET - 2 * PAGE) :]
    edge = sorted(score[free])
    assert edge[-(BUDGET - 2 * PAGE)] > edge[-(BUDGET - 2 * PAGE) - 1]
    return sorted([*range(PAGE), *(int(token) for token in best), *range(count - PAGE, count)])


def keep(layer, entries):
    layer.keys, layer.values = (x[:, :, entries] for x in (layer.keys, layer.values))


def is_local(config, index):
    kinds = getattr(config, "layer_types", None) or []
    return bool(kinds) and kinds[index] == "sliding_attention"


def evict(cache, config):
    """What each layer kept. Budgets are not for local layers, which keep their window."""
    choices = []
    for index, layer in enumerate(cache.layers):
        count = layer.keys.shape[2]
        local = is_local(config, index)
        choices.append(list(range(count - config.sliding_window, count)) if local else kept(layer.keys, layer.values))
        keep(layer, choices[-1])
    return choices


def leave_windows(cache, positions, config, position):
    """Takes out of each local layer what is outside the window of the token at `position`, and of all later ones."""
    for index in range(len(positions)):
        if is_local(config, index):
            inside = [i for i, held in enumerate(positions[index]) if held > position - config.sliding_window]
            keep(cache.layers[index], inside)
            positions[index] = [positions[index][i] for i in inside]


@torch.no_grad()
def decode(model, prompt, continuation, evicts):
    """(log-probabilities of the continuation, what was kept)."""
    cache = StoredCache()  # every layer holds all tokens
    logits = model(torch.tensor([prompt]), past_key_values=cache).logits[0, -1]
    choices = evict(cache, model.config) if evicts else []
    positions = [list(kept) for kept in choices] or [list(range(len(prompt))) for _ in cache.layers]
    said = []
    for at, token in enumerate(continuation):
        said.append(round(float(logits.double().log_softmax(-1)[token]), 5))
        position = torch.tensor([[len(prompt) + at]])
        leave_windows(cache, positions, model.config, len(prompt) + at)
        # Position and length differ after an eviction, and one query sees everything that is still there.
        mask = torch.zeros(1, 1, 1, 1)
        if model.config.model_type == "gemma3_text":
            mask = {"full_attention": mask, "sliding_attention": mask}
        for held in positions:
            held.append(len(prompt) + at)
        logits = model(torch.tensor([[token]]), past_key_values=cache, position_ids=position, cache_position=position[0],
                       attention_mask=mask).logits[0, -1]  # fmt: skip
    return said, choices


def case(family, directory):
    family_models.write(family, directory)
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager")
    model.eval()
    random = np.random.default_rng(20261128)
    ids = random.integers(3, len(family_models.vocabulary()), PROMPT + CONTINUATION).tolist()
    prompt, continuation = ids[:PROMPT], ids[PROMPT:]
    full, _ = decode(model, prompt, continuation, evicts=False)
    evicted, choices = decode(model, prompt, continuation, evicts=True)
    return {"prompt": prompt, "continuation": continuation, "full": full, "evicted": evicted, "kept": choices}


def main():
    cases = {}
    for family in family_models.FAMILIES:
        with tempfile.TemporaryDirectory() as directory:
            cases[family] = case(family, directory)
    lines = [f"{json.dumps(name)}: {json.dumps(each)}" for name, each in cases.items()]
    print("{\n" + ",\n".join(lines) + "\n}")


if __name__ == "__main__":
    main()
