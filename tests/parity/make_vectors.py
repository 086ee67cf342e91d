"""Kept positions by kvpress' own presses on seeded keys, values and queries: writes vectors.json and *.bin beside it.

README.md says what is in them. `--check` compares with the files that are there and writes nothing.
"""

import argparse
import dataclasses
import importlib.metadata
import json
import pathlib
import sys
import types

import kvpress
import numpy as np
import torch
from torch.nn import functional as F

HERE = pathlib.Path(__file__).resolve().parent
SINK = RECENT = 16  # tokens that Folio protects by default: one page each
POOL = 7  # tokens that Folio's snap_kv takes the maximum over
# How far, relative to the score, the last kept and the first dropped token are apart at least: far above the
# rounding of float32, so that a set that differs is a definition that differs.
MARGIN = 1e-4


@dataclasses.dataclass(frozen=True)
class Shape:
    name: str
    tokens: int
    heads: int
    kv_heads: int
    head_dim: int
    window: int
    budgets: tuple[int, ...]
    first_seed: int


SHAPES = (
    Shape("gqa_9_3_64", 200, 9, 3, 64, 32, (64, 112), 100),  # the reference model's heads; half a page at the end
    Shape("mha_4_4_32", 176, 4, 4, 32, 16, (48, 96), 200),
    Shape("gqa_8_2_128", 145, 8, 2, 128, 48, (80, 96), 300),  # one token in the last page
)


class TooClose(Exception):
    """A choice hangs on less than MARGIN: another seed must be taken."""


def bf16(array):
    """Float32 tensor of values that bfloat16 holds exactly, as Folio's cache would."""
    return torch.from_numpy(np.asarray(array, dtype=np.float32)).to(torch.bfloat16).to(torch.float32)


def inputs(shape, seed):
    """K and V [kv_heads, tokens, head_dim], the last `window` queries [window, heads, head_dim].

    Keys have a common direction per head and norms that differ, as a model's do; each query looks for a few tokens.
    """
    random = np.random.Generator(np.random.PCG64(seed))
    size = (shape.kv_heads, shape.tokens, shape.head_dim)
    norms = np.exp(0.3 * random.standard_normal((shape.kv_heads, shape.tokens, 1)))
    keys = (random.standard_normal(size) + 0.8 * random.standard_normal((shape.kv_heads, 1, shape.head_dim))) * norms
    values = random.standard_normal(size) * np.exp(0.5 * random.standard_normal((1, shape.tokens, 1)))
    queries = random.standard_normal((shape.window, shape.heads, shape.head_dim))
    for head in range(shape.heads):
        wanted = keys[head * shape.kv_heads // shape.heads][random.integers(0, shape.tokens - shape.window, 4)]
        pull = np.abs(random.standard_normal((shape.window, 4))) * 2 / shape.head_dim**0.5
        queries[:, head] += pull @ wanted
    return bf16(keys), bf16(values), bf16(queries)


def attention_module(shape):
    """What a press reads of an attention layer. Queries come in as the hidden states."""
    module = torch.nn.Module()
    module.q_proj = torch.nn.Identity()
    module.head_dim = shape.head_dim
    module.config = types.SimpleNamespace(num_attention_heads=shape.heads, num_key_value_heads=shape.kv_heads)
    return module


def arguments(shape, keys, values, queries):
    """The arguments of a press' score() and compress(). Keys and queries count as turned by their positions already."""
    hidden = torch.zeros(1, shape.tokens, shape.heads * shape.head_dim)
    hidden[0, -shape.window :] = queries.flatten(1)
    angles = torch.ones(1, shape.tokens, shape.head_dim)
    return attention_module(shape), hidden, keys[None], values[None], None, {"position_embeddings": (angles, 0 * angles)}


def presses(shape, seed):
    return {
        "knorm": kvpress.KnormPress(),
        "keydiff": kvpress.KeyDiffPress(),
        "snapkv": kvpress.SnapKVPress(window_size=shape.window),
        "random": kvpress.RandomPress(seed=seed),
        "streaming_llm": kvpress.StreamingLLMPress(n_sink=SINK),
    }


def kept_by(press, shape, budget, given):
    """The positions that the press' own compress() keeps, ascending, per KV head."""
    module, hidden, keys, values, attentions, more = given
    press = dataclasses.replace(press, compression_ratio=1 - (budget + 0.5) / shape.tokens)
    positions = torch.arange(shape.tokens, dtype=torch.float32)[:, None].expand_as(values)
    _, found = press.compress(module, hidden, keys, positions, attentions, more)
    kept = found[0, :, :, 0].to(torch.int64).sort(dim=-1).values
    assert kept.shape == (shape.kv_heads, budget), kept.shape
    k, v = press.compress(module, hidden, keys, values, attentions, more)
    for head in range(shape.kv_heads):
        for compressed, full in ((k, keys), (v, values)):
            rows = {row.numpy().tobytes() for row in compressed[0, head]}
            assert rows == {row.numpy().tobytes() for row in full[0, head, kept[head]]}
    return kept


def highest(scores, budget):
    """The `budget` highest positions, ascending; of equal ones the newer stay. `scores` [tokens]."""
    order = sorted(range(len(scores)), key=lambda i: (-float(scores[i]), -i))
    last, first_out = float(scores[order[budget - 1]]), float(scores[order[budget]])
    # Equal by definition, as neighbours under one maximum are: then the next values must not come near.
    near = [first_out] if last != first_out else [float(s) for s in scores if s != last]
    if any(abs(last - s) < MARGIN * abs(last) for s in near):
        raise TooClose
    return sorted(order[:budget])


def protected(scores, recent):
    scores = scores.clone()
    scores[:SINK] = float("inf")
    scores[-recent:] = float("inf")
    return scores


def window_attention(shape, keys, queries):
    """Mean attention mass of the window's queries [kv_heads, tokens], the window's own tokens included."""
    group = shape.heads // shape.kv_heads
    logits = torch.einsum("whd,htd->hwt", queries, keys.repeat_interleave(group, 0)) / shape.head_dim**0.5
    row = torch.arange(shape.tokens - shape.window, shape.tokens)[:, None]
    mass = logits.masked_fill(torch.arange(shape.tokens) > row, float("-inf")).softmax(-1)
    return mass.mean(1).view(shape.kv_heads, group, -1).mean(1)


def folio_scores(shape, scores, keys, queries, given):
    """Folio's score of each press' policy, from what kvpress computes. [kv_heads, tokens] each."""
    mass = window_attention(shape, keys, queries)
    theirs = kvpress.SnapKVPress(window_size=shape.window, kernel_size=1).score(*given)[0]
    seen = slice(0, shape.tokens - shape.window)
    torch.testing.assert_close(mass[:, seen], theirs[:, seen], rtol=1e-5, atol=1e-9)
    return {
        "knorm": -1 / scores["knorm"],
        "keydiff": scores["keydiff"],
        "snapkv": F.max_pool1d(mass, POOL, stride=1, padding=POOL // 2),
        "random": scores["random"],
        # One number per position: the most recent.
        "streaming_llm": torch.arange(1.0, shape.tokens + 1).expand(shape.kv_heads, -1),
    }


def build(shape, seed):
    """One shape's entry of vectors.json and its tensors."""
    keys, values, queries = inputs(shape, seed)
    given = arguments(shape, keys, values, queries)
    made = presses(shape, seed)
    scores = {name: press.score(*given)[0] for name, press in made.items() if name != "streaming_llm"}
    ours = folio_scores(shape, scores, keys, queries, given)
    cases = []
    for name, press in made.items():
        for budget in shape.budgets:
            if name == "streaming_llm":
                # Of ones and zeros: as many ones as the budget, so no choice is left to chance.
                press = dataclasses.replace(press, compression_ratio=1 - (budget + 0.5) / shape.tokens)
                scores[name] = press.score(*given)[0]
                assert (scores[name].sum(-1) == budget).all()
            kept = kept_by(press, shape, budget, given).tolist()
            # Checks the margins, and that topk is understood.
            assert kept == [highest(head, budget) for head in scores[name]], name
            recent = max(RECENT, shape.window) if name == "snapkv" else RECENT
            cases.append({
                "press": name,
                "budget": budget,
                "kvpress": kept,
                "head_mean": highest(scores[name].mean(0), budget),
                "folio": highest(protected(ours[name].mean(0), recent), budget),
            })
    entry = {field: getattr(shape, field) for field in ("name", "tokens", "heads", "kv_heads", "head_dim", "window")}
    tensors = [t.to(torch.bfloat16).view(torch.int16) for t in (keys, values, queries)]
    tensors += [scores["knorm"], scores["keydiff"], scores["snapkv"], scores["random"], ours["snapkv"]]
    return entry | {"seed": seed, "sink": SINK, "recent": RECENT, "cases": cases}, tensors


def first_clear(shape):
    """build() of the first seed whose choices are all clear."""
    for seed in range(shape.first_seed, shape.first_seed + 100):
        try:
            return build(shape, seed)
        except TooClose:
            continue
    raise SystemExit(f"{shape.name}: no seed leaves a margin of {MARGIN}")


def same(name, data):
    """Is the file as made? Scores may differ by rounding, which goes by PyTorch's code for this CPU."""
    if not (HERE / name).exists():
        return False
    there = (HERE / name).read_bytes()
    if name.endswith(".json") or len(there) != len(data):
        return there == data
    shape = next(shape for shape in SHAPES if f"{shape.name}.bin" == name)
    scores = -5 * 4 * shape.kv_heads * shape.tokens
    old, new = (np.frombuffer(part[scores:], dtype="<f4") for part in (there, data))
    return there[:scores] == data[:scores] and np.allclose(old, new, rtol=1e-5, atol=2e-7)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the files that are there")
    check = parser.parse_args().check
    torch.set_num_threads(1)
    files, entries = {}, []
    for shape in SHAPES:
        entry, tensors = first_clear(shape)
        entries.append(entry)
        files[f"{shape.name}.bin"] = b"".join(
            tensor.contiguous().numpy().astype(tensor.numpy().dtype.newbyteorder("<")).tobytes() for tensor in tensors
        )
        print(f"{shape.name}: seed {entry['seed']}")
    made_by = {"kvpress": importlib.metadata.version("kvpress"), "torch": torch.__version__.split("+")[0]}
    lines = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in entries)
    files["vectors.json"] = f'{{"made_by":{json.dumps(made_by)},"shapes":[\n{lines}\n]}}\n'.encode()
    differ = [name for name, data in files.items() if not same(name, data)]
    if check:
        sys.exit(f"differ: {', '.join(differ)}" if differ else 0)
    for name in differ:
        (HERE / name).write_bytes(files[name])
    print(f"{sum(map(len, files.values()))} bytes, {len(differ)} files written")


if __name__ == "__main__":
    main()
