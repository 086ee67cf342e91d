#!/usr/bin/env python3
"""Writes small inputs of each target: seeds.py TARGET FOLDER. They are where a target without a kept corpus begins.

Words that a mutator may put in go to the file FOLDER.words.
"""
import hashlib
import json
import pathlib
import random
import struct
import sys

from message_seeds import journal, session  # noqa: F401 - targets


def text(value):
    return struct.pack("<Q", len(value)) + value


def gguf_text(key, value):
    return text(key) + struct.pack("<I", 8) + text(value)


def gguf_numbers(*pairs):
    return b"".join(text(key) + struct.pack("<II", 4, value) for key, value in pairs)


def gguf_texts(key, values):
    return text(key) + struct.pack("<IIQ", 9, 8, len(values)) + b"".join(text(value) for value in values)


def gguf_model():
    """A llama of one layer without its tensors, apart from the first one."""
    tokens = [b"a", b"b", b"ab", b"<s>"]
    fields = gguf_text(b"general.architecture", b"llama") + gguf_text(b"tokenizer.ggml.model", b"gpt2")
    fields += gguf_text(b"tokenizer.ggml.pre", b"smollm") + gguf_texts(b"tokenizer.ggml.tokens", tokens)
    fields += gguf_texts(b"tokenizer.ggml.merges", [b"a b"]) + text(b"llama.attention.layer_norm_rms_epsilon") + struct.pack("<If", 6, 1e-5)
    fields += text(b"tokenizer.ggml.token_type") + struct.pack("<IIQ4i", 9, 5, 4, 1, 1, 1, 3)
    numbers = [(b"llama.block_count", 1), (b"llama.embedding_length", 32), (b"llama.feed_forward_length", 64),
               (b"llama.context_length", 64),
               (b"llama.attention.head_count", 2), (b"llama.attention.head_count_kv", 1), (b"tokenizer.ggml.bos_token_id", 3)]
    fields += gguf_numbers(*numbers)
    tensor = text(b"token_embd.weight") + struct.pack("<IQQIQ", 2, 32, 4, 0, 0)
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 7 + len(numbers)) + fields + tensor
    return head + bytes(-len(head) % 32) + bytes(512)


def gguf():
    yield gguf_model()
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


CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 2048, "vocab_size": 300, "rms_norm_eps": 1e-5,
          "hidden_act": "silu", "attention_bias": False, "mlp_bias": False, "head_dim": 16,
          "rope_theta": 10000.0, "tie_word_embeddings": True}


def hf_config():
    rope = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
    group = {"weights": {"type": "float", "num_bits": 8, "strategy": "channel"},
             "input_activations": {"type": "float", "num_bits": 8, "dynamic": True}}
    for more in (
        {}, {"rope_scaling": rope}, {"rope_parameters": {**rope, "rope_theta": 5e5}, "layer_types": ["full_attention"] * 2},
        {"quantization_config": {"quant_method": "fp8", "activation_scheme": "dynamic"}},
        {"quantization_config": {"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": {"group_0": group}}},
        {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "use_sliding_window": False},
        {"architectures": ["MistralForCausalLM"], "model_type": "mistral", "sliding_window": None},
    ):
        yield json.dumps({**CONFIG, **more}).encode()


def byte_level():
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}


def tokenizer_json():
    added = [{"id": 7, "content": "<s>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}]
    vocabulary = {"a": 0, "b": 1, "ab": 2, "\u0120": 3, "<0x0A>": 4, "\u2581": 5, "<unk>": 6}
    bpe = {"type": "BPE", "vocab": vocabulary, "merges": [["a", "b"]], "unk_token": "<unk>", "byte_fallback": True, "ignore_merges": True}
    pattern = {"Regex": "(?i:'s)|\\p{L}+|\\s+(?!\\S)"}
    split = {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
    single = [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    prefix = {"type": "TemplateProcessing", "single": single,
              "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [7], "tokens": ["<s>"]}}}
    forms = [
        {"pre_tokenizer": byte_level(), "decoder": byte_level()},
        {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level()]}, "normalizer": {"type": "NFC"}},
        {"normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"}, replace]},
         "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]}, "post_processor": prefix},
        {"pre_tokenizer": {"type": "Digits", "individual_digits": True}, "normalizer": {"type": "Lowercase"}},
        {"model": {"type": "WordPiece", "vocab": vocabulary, "unk_token": "<unk>", "continuing_subword_prefix": "##",
                   "max_input_chars_per_word": 100}, "pre_tokenizer": {"type": "Whitespace"}},
        {"model": {"type": "Unigram", "unk_id": 2, "byte_fallback": True, "vocab": [["a", -1.5], ["ab", -2], ["<unk>", 0], ["\u2581", -3]]},
         "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first"}},
    ]
    config = json.dumps({"bos_token": "<s>", "eos_token": {"content": "<s>"}, "add_bos_token": True}).encode()
    for form in forms:
        document = json.dumps({"version": "1.0", "added_tokens": added, "model": bpe, **form}, separators=(",", ":"))
        yield document.encode() + b"\0" + config + b"\0" + b'{"eos_token_id":[7]}\0' + "abba a\u00e9 <s>\n 12".encode()


def gguf_tokenizer():
    tokens = ["1a", "1b", "1ab", "1\u0120", "1\u0120a", "3<s>", "4<pad>", "11"]
    for pre in 0, 1, 2, 3, 4, 8, 9:
        lines = [*tokens, "", "a b", "\u0120 a", "", "abba a <s> 11\u00e9"]
        yield bytes([pre, 0x7B, 5, 5]) + "\n".join(lines).encode()
    pieces = ["2a<unk>", "3a<s>", "1xa", "1yb", "1cab", "1d\u2581", "1b\u2581a", "4a<pad>"]
    every_byte = [f"6a<0x{byte:02X}>" for byte in range(256)]
    for model in 6, 7:
        for tokens in pieces, pieces + every_byte:
            lines = [*tokens, "", "", "abba a <s> 11\u00e9"]
            yield bytes([model, 0xFB, 1, 1]) + "\n".join(lines).encode()


def chat_template():
    templates = [
        "{% for m in messages %}<s>{{ m.role }}\n{{ m.content | trim }}</s>{% endfor %}"
        "{% if add_generation_prompt %}<s>assistant\n{% endif %}",
        "{% macro one(m, n=2) %}{{ m['content'][:n] }}{{ m.name|default('x') }}{% endmacro %}"
        "{% for m in messages %}{{ one(m) }}{% endfor %}",
        "{% set ns = namespace(n=0) %}{% for t in tools %}{% set ns.n = ns.n + 1 %}{{ t | tojson(indent=2) }}{% endfor %}{{ ns.n }}",
        "{{ strftime_now('%d %b %Y') }}{% if tools is none %}{{ raise_exception('no tools') }}{% endif %}{{ bos_token ~ eos_token }}",
        "{%- for m in messages if m.role != 'system' -%}{{ m.content.split('a')|join(', ') }}{{ loop.index0 * 3 // 2 }}"
        "{%- else %}{% endfor %}",
        "{{ messages|map(attribute='role')|list|unique|sort|reverse|first|upper }}{{ 'x' * 5 }}{{ range(3)|batch(2)|list }}",
    ]
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}}]
    for template in templates:
        rest = [b'{"name":"n"}', json.dumps(tools).encode(), b'{"depth":[1,2.5,null]}', b"Hello </s> a", b"Hi", b"Go"]
        yield b"\0".join([template.encode(), *rest])


def openai_request():
    function = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "$ref": "#/a"}}}
    cache = {"policy": "kv_crush:snap_kv,share=0.3", "budget": 0.5, "mode": "pipelined", "layers": "shared", "report_kept": False}
    common = {"model": "m", "max_tokens": 9, "temperature": 0.5, "top_p": 0.9, "top_k": -1, "min_p": 0.1, "seed": 3, "stop": ["\n"], "n": 2,
              "logit_bias": {"5": -100}, "presence_penalty": 1, "frequency_penalty": 1, "repetition_penalty": 1.5,
              "priority": 2, "user": "u",
              "stream": True, "stream_options": {"include_usage": True}, "cache": cache, "prompt_cache_key": "k", "stop_token_ids": [1]}
    calls = [{"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}]
    messages = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": [{"type": "text", "text": "Hello"}]},
                {"role": "assistant", "content": None, "tool_calls": calls}, {"role": "tool", "tool_call_id": "1", "content": "2"}]
    chats = [
        {"messages": messages, **common, "tools": [function], "tool_choice": "required", "logprobs": True, "top_logprobs": 3},
        {"messages": messages[:2], "tools": [function], "tool_choice": {"type": "function", "function": {"name": "f"}}},
        {"messages": messages[1:2], "response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}},
         "chat_template_kwargs": {"a": 1}, "max_completion_tokens": 5},
        {"messages": messages[1:2], "guided_choice": ["a", "b|"], "cache": {"budget": [16, 32], "schedule": "pyramid", "segments": 4}},
    ]
    completions = [{"prompt": "Once", **common, "logprobs": 2},
                   {"prompt": [[1, 2], "a"], "structured_outputs": {"regex": "a+"}, "best_of": 1}]
    for chat in chats:
        yield b"\n" + json.dumps(chat).encode()
    for completion in completions:
        yield json.dumps(completion).encode()


def access_files():
    digest = hashlib.sha256(b"secret").hexdigest()
    yield f"""# Tenants
tenant alice   sequences=8 pages=20000 requests_per_minute=600 priority=10
tenant bob
token sha256:{digest}   alice
cert  gateway.example   *
token sha256:{digest[::-1]}   -  view
unix                    -  steer
""".encode()
    yield f"# keys\n{digest} alice\n{digest[::-1]}\tops operator\n".encode()


def export_socket():
    token, ours, waits = 1, bytes(2), 0
    for options in range(16):
        yield bytes([options, waits, token, *ours])
        yield bytes([options, waits, token | 3 << 3, *ours, 0, 1, 2])
        yield bytes([options, waits, token | 2 << 3, *ours, 0, 1]) + bytes([1, 2, *ours, token, *ours])
    numbers = random.Random(9)
    for _ in range(8):
        yield numbers.randbytes(64)


def escaped(word):
    return "".join(chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\' else f"\\x{byte:02X}" for byte in word.encode())


if __name__ == "__main__":
    target, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    for number, seed in enumerate(globals()[target]()):
        (folder / f"seed{number}").write_bytes(seed)
    words = pathlib.Path(__file__).parent / "words" / f"{target}.txt"
    lines = words.read_text().splitlines() if words.exists() else []
    folder.with_suffix(".words").write_text("".join(f'"{escaped(word)}"\n' for word in lines))
