"""A Llama model with random quantised weights as a GGUF file: random_gguf.py OUT --shape 1b --mix Q4_K_M [--seed N]

Equal arguments give equal files. Blocks are drawn as they are, so nothing is rounded: what a reader makes of them is exact.
"""

import argparse
import os

import gguf
import numpy

Q = gguf.GGMLQuantizationType

# layers, hidden, ffn, heads, KV heads, head_dim, vocabulary, context
SHAPES = {
    "1b": (16, 2048, 8192, 32, 8, 64, 128256, 131072),  # Llama-3.2-1B
    "tiny": (3, 256, 512, 8, 2, 32, 1024, 2048),
    "tiny64": (3, 256, 512, 4, 2, 64, 1024, 2048),  # heads that GPUs serve
    "tiny96": (3, 256, 512, 8, 2, 96, 1024, 2048),  # heads that are padded there
}
# Of the attention and gate and up matrices, then of the value and down matrices in some layers, then of the embedding, which is the
# output matrix too. Q4_K_M and Q5_K_M are llama.cpp's choices.
MIXES = {
    "Q4_K_M": (Q.Q4_K, Q.Q6_K, Q.Q6_K), "Q5_K_M": (Q.Q5_K, Q.Q6_K, Q.Q6_K), "Q4_K_F16": (Q.Q4_K, Q.F16, Q.Q6_K),
    **{name: (Q[name],) * 3 for name in ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K", "Q3_K", "IQ4_NL", "IQ4_XS")},
}  # fmt: skip


def halves(values, count):
    return numpy.broadcast_to(numpy.asarray(values, numpy.float16), (count, 1)).view(numpy.uint8)


def six_bits(steps, offsets):
    """Eight pairs of six bits in the 12 bytes of Q4_K and Q5_K, [count, 8] each."""
    low, high = steps[:, :4], steps[:, 4:]
    low_t, high_t = offsets[:, :4], offsets[:, 4:]
    return numpy.concatenate([low | (high >> 4) << 6, low_t | (high_t >> 4) << 6, high & 15 | (high_t & 15) << 4], axis=1).astype(numpy.uint8)


def blocks(kind, count, deviation, random):
    """[count, bytes of a block]; values are about evenly spread around 0 with this deviation."""
    def codes(size):
        return random.integers(0, 256, (count, size), dtype=numpy.uint8)

    def spread(bits):
        return ((1 << bits) - 1) / 12**0.5

    if kind in (Q.Q4_0, Q.IQ4_NL):
        return numpy.concatenate([halves(deviation / (66 if kind == Q.IQ4_NL else spread(4)), count), codes(16)], axis=1)
    if kind in (Q.Q4_1, Q.Q5_1):
        bits = 4 if kind == Q.Q4_1 else 5
        d = deviation / spread(bits)
        return numpy.concatenate([halves(d, count), halves(-d * ((1 << bits) - 1) / 2, count), codes(16 if bits == 4 else 20)], axis=1)
    if kind == Q.Q5_0:
        return numpy.concatenate([halves(deviation / spread(5), count), codes(20)], axis=1)
    if kind == Q.Q8_0:
        return numpy.concatenate([halves(deviation / spread(8), count), codes(32)], axis=1)
    if kind in (Q.Q4_K, Q.Q5_K):
        bits = 4 if kind == Q.Q4_K else 5
        steps = random.integers(32, 64, (count, 8), dtype=numpy.uint8)
        d = deviation / spread(bits) / 48
        return numpy.concatenate([halves(d, count), halves(d * ((1 << bits) - 1) / 2, count), six_bits(steps, steps),
                                  codes(128 if bits == 4 else 160)], axis=1)  # fmt: skip
    if kind == Q.Q6_K:
        steps = random.integers(64, 128, (count, 16), dtype=numpy.uint8)
        return numpy.concatenate([codes(192), steps, halves(deviation / spread(6) / 96, count)], axis=1)
    if kind == Q.Q3_K:
        return numpy.concatenate([codes(108), halves(deviation / 2.3 / 18, count)], axis=1)
    if kind == Q.IQ4_XS:
        return numpy.concatenate([halves(deviation / 66 / 18, count), codes(134)], axis=1)
    raise ValueError(kind)


def add_matrix(writer, name, kind, rows, cols, random):
    deviation = cols**-0.5
    if kind == Q.F16:
        writer.add_tensor(name, (random.standard_normal((rows, cols), numpy.float32) * deviation).astype(numpy.float16))
        return
    values, size = gguf.GGML_QUANT_SIZES[kind]
    data = numpy.ascontiguousarray(blocks(kind, rows * cols // values, deviation, random))
    writer.add_tensor(name, data.reshape(rows, cols // values * size), raw_dtype=kind)


def add_vocabulary(writer, size):
    """The byte-level alphabet, one merge, and words that no text becomes."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    alphabet = [chr(b) for b in printable] + [chr(256 + i) for i in range(256 - len(printable))]
    tokens = [*alphabet, "\u0120t"]
    tokens += [f"<word{i}>" for i in range(size - len(tokens) - 2)] + ["<|begin_of_text|>", "<|end_of_text|>"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama-bpe")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.NORMAL] * (size - 2) + [gguf.TokenType.CONTROL] * 2)
    writer.add_token_merges(["\u0120 t"])
    writer.add_bos_token_id(size - 2)
    writer.add_eos_token_id(size - 1)
    writer.add_add_bos_token(True)


def more_bits(layer, layers):
    """The layers whose value and down matrices llama.cpp gives more bits in Q4_K_M."""
    return layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2


def write(path, shape="tiny", mix="Q4_K_M", seed=1):
    layers, hidden, ffn, heads, kv_heads, dim, vocab, context = SHAPES[shape]
    most, some, embedding = MIXES[mix]
    random = numpy.random.Generator(numpy.random.PCG64(seed))
    writer = gguf.GGUFWriter(str(path) + ".part", "llama")
    writer.add_name(f"Random {shape} {mix}")
    file_type = {"Q4_K_M": "MOSTLY_Q4_K_M", "Q8_0": "MOSTLY_Q8_0", "Q4_0": "MOSTLY_Q4_0"}.get(mix)
    if file_type:  # OpenVINO GenAI wants it
        writer.add_file_type(gguf.LlamaFileType[file_type])
    writer.add_block_count(layers)
    writer.add_context_length(context)
    writer.add_embedding_length(hidden)
    writer.add_feed_forward_length(ffn)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_rope_dimension_count(dim)
    writer.add_key_length(dim)
    writer.add_value_length(dim)
    writer.add_rope_freq_base(500000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(vocab)
    add_vocabulary(writer, vocab)
    add_matrix(writer, "token_embd.weight", embedding, vocab, hidden, random)
    ones = numpy.ones(hidden, numpy.float32)
    writer.add_tensor("output_norm.weight", ones)
    for layer in range(layers):
        at = f"blk.{layer}."
        other = some if more_bits(layer, layers) else most
        writer.add_tensor(at + "attn_norm.weight", ones)
        writer.add_tensor(at + "ffn_norm.weight", ones)
        for name, kind, rows, cols in [("attn_q", most, heads * dim, hidden), ("attn_k", most, kv_heads * dim, hidden),
                                       ("attn_v", other, kv_heads * dim, hidden), ("attn_output", most, hidden, heads * dim),
                                       ("ffn_gate", most, ffn, hidden), ("ffn_up", most, ffn, hidden),
                                       ("ffn_down", other, hidden, ffn)]:  # fmt: skip
            add_matrix(writer, f"{at}{name}.weight", kind, rows, cols, random)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    os.replace(str(path) + ".part", path)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("--shape", choices=SHAPES, default="tiny")
    parser.add_argument("--mix", choices=MIXES, default="Q4_K_M")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    write(args.out, args.shape, args.mix, args.seed)


if __name__ == "__main__":
    main()
