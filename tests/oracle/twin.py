"""The reference model in NumPy, as the oracle defines it, with its sums in any order.

Exact sums would not care in which order hidden and feed-forward elements stand; float32 sums do, and
where a K or V lies between two neighbours of bfloat16 the other one is stored. So many orders show how
far one definition moves a log-probability by itself.

    twin.py MODEL.gguf [--orders N] > spread.json
"""

import argparse
import json
import pathlib
import sys

import numpy as np
from gguf import GGUFReader

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "model"))
from bf16 import to_bf16  # noqa: E402
from gguf_to_hf import metadata, tensors  # noqa: E402

LAYERS, HEADS, KV_HEADS, DIM, HIDDEN, FFN = 30, 9, 3, 64, 576, 1536
THETA, EPS = 100000.0, 1e-5


def cases():
    """The oracle's generations."""
    return json.loads((HERE / "generation.json").read_text())


def full_cases():
    """Those without eviction."""
    return [case for case in cases() if case["policy"] == "full"]


def stored(values):
    """As the cache holds them."""
    return (to_bf16(values).astype(np.uint32) << 16).view(np.float32).astype(values.dtype)


def rotate(x, cos, sin):
    return x * cos + np.concatenate([-x[..., DIM // 2 :], x[..., : DIM // 2]], -1) * sin


def attend(q, k, v):
    """Causal; q is [tokens, HEADS, DIM], k and v are [tokens, KV_HEADS, DIM] and may begin earlier."""
    out = np.empty_like(q)
    hidden = np.triu(np.ones((len(q), len(k)), bool), 1 + len(k) - len(q))
    for head in range(HEADS):
        kv = head // (HEADS // KV_HEADS)
        share = q[:, head] @ k[:, kv].T / q.dtype.type(np.sqrt(DIM))
        share[hidden] = -np.inf
        share = np.exp(share - share.max(-1, keepdims=True))
        out[:, head] = share / share.sum(-1, keepdims=True) @ v[:, kv]
    return out.reshape(len(q), -1)


class Twin:
    def __init__(self, path):
        reader = GGUFReader(path)
        self.weights = {
            name: (bits.astype(np.uint32) << 16).view(np.float32)
            for name, _, bits in tensors(reader, metadata(reader))
        }

    def numbers(self, case, order=None, dtype=np.float32, store=stored, eps=EPS):
        """[2, tokens]: log-probability of each token of the case, and the distance of the two best logits.

        `order` seeds the order of the sums; `store` and `eps` are changed to see a wrong model.
        """
        prompt, tokens = case["prompt_ids"], case["tokens"]
        last = self.hidden(np.array(prompt + tokens[:-1]), order, dtype, store, eps)[len(prompt) - 1 :]
        logits = (last @ self.weights["model.embed_tokens.weight"].astype(dtype).T).astype(np.float64)
        logits -= logits.max(-1, keepdims=True)
        best = np.sort(np.partition(logits, -2, -1)[:, -2:], -1)
        chosen = logits[np.arange(len(tokens)), tokens] - np.log(np.exp(logits).sum(-1))
        return np.array([chosen, best[:, 1] - best[:, 0]])

    def hidden(self, ids, order=None, dtype=np.float32, store=stored, eps=EPS, first=0, attention=None):
        """After the last norm. `first` is the position of the first token; `attention` takes the layer too."""
        random = np.random.default_rng(order)
        here = np.arange(HIDDEN) if order is None else random.permutation(HIDDEN)

        def norm(x, name):
            scale = np.sqrt((x * x).mean(-1, keepdims=True, dtype=dtype) + dtype(eps))
            return x / scale * self.weights[name][here].astype(dtype)

        def weight(name, rows=slice(None), columns=slice(None)):
            if order is None:
                return self.weights[name + ".weight"].astype(dtype, copy=False).T
            return np.ascontiguousarray(self.weights[name + ".weight"][rows][:, columns].astype(dtype).T)

        inverse = (1 / THETA ** (np.arange(0, DIM, 2, dtype=np.float32) / DIM)).astype(np.float32)
        positions = np.arange(first, first + len(ids), dtype=np.float32)
        angles = np.tile(positions[:, None] * inverse, 2)[:, None]
        cos, sin = np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)
        x = self.weights["model.embed_tokens.weight"][ids][:, here].astype(dtype)
        for layer in range(LAYERS):
            at = f"model.layers.{layer}."
            ffn = slice(None) if order is None else random.permutation(FFN)
            h = norm(x, at + "input_layernorm.weight")
            q, k, v = (
                (h @ weight(f"{at}self_attn.{role}_proj", columns=here)).reshape(len(ids), -1, DIM) for role in "qkv"
            )
            own = rotate(q, cos, sin), store(rotate(k, cos, sin)), store(v)
            attended = attend(*own) if attention is None else attention(layer, *own)
            x = x + attended @ weight(at + "self_attn.o_proj", rows=here)
            h = norm(x, at + "post_attention_layernorm.weight")
            gate = h @ weight(at + "mlp.gate_proj", ffn, here)
            up = h @ weight(at + "mlp.up_proj", ffn, here)
            x = x + (gate / (1 + np.exp(-gate)) * up) @ weight(at + "mlp.down_proj", here, ffn)
        out = np.empty_like(x)
        out[:, here] = norm(x, "model.norm.weight")
        return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--orders", type=int, default=12)
    options = parser.parse_args()
    twin = Twin(options.model)
    spread = {}
    for case in full_cases():
        runs = []
        for order in range(options.orders):
            runs.append(twin.numbers(case, order)[0])
            print(f"{case['name']}: {order + 1} of {options.orders}", file=sys.stderr)
        spread[case["name"]] = [round(float(value), 5) for value in np.std(runs, axis=0, ddof=1)]
    lines = [f"{json.dumps(name)}: {json.dumps(values)}" for name, values in spread.items()]
    print("{\n" + ",\n".join(lines) + "\n}")


if __name__ == "__main__":
    main()
