#!/usr/bin/env python3
"""Makes sentencepiece.json: small vocabularies of SentencePiece, and what SentencePiece makes of texts.

    python3 -m venv venv && venv/bin/pip install sentencepiece==0.2.3 tokenizers==0.23.3
    venv/bin/python make_sentencepiece.py sentencepiece.json

The vocabularies are trained on this repository's own pages. Each one is written down as the metadata of a GGUF file and as
the tokenizer.json that transformers would convert it to. The rows come from SentencePiece alone. The `tokenizers` package
only checks that the tokenizer.json gives the same ids. A GGUF file's tokenizer cuts a text at special tokens first, and puts
a space in front of each part, as llama.cpp does, so SentencePiece gets these parts one by one.
"""

import base64
import json
import pathlib
import re
import sys
import tempfile

import sentencepiece
import tokenizers

ROOT = pathlib.Path(__file__).parents[2]
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
SPACE = "\u2581"

# Full-width letters become ordinary ones, and a no-break space becomes a space.
RULES = {0xFF21 + i: 0x41 + i for i in range(26)} | {0xA0: 0x20, 0x2003: 0x20}

OTHER_LINES = [
    "Une naïve fille à la crème brûlée, où l'été n'est qu'un rêve déjà vécu.",
    "Größe und Straße, über Öl und Äpfel.",
    "日本語のテキストを少しだけ書きます。", "中文文本也只有一点点。", "한국어도 조금.", "Немного русского текста.",
]

TEXTS = [
    "", " ", "  ", "     ", "Hello world", " Hello", "Hello ", "a  b", "   three   spaces   ", "\n", "a\nb", "\n\n", "\n\n\n\n\n", "\t", "a\tb",
    " \n \t \r\n", "line one\n  indented by two\n    indented by four\n\nend", "é", "e\u0301", "naïve café", "日本語のテキスト", "日本 語", "한국어 조금", "🙂",
    "🙂🙂 ok", "\U0001F469\u200D\U0001F469\u200D\U0001F467", "\u0001\u0007", "a\u200bb", "\ufeffbom", "\u2581", "a\u2581b", "\u2581\u2581", "<s>", "a<s>b", "</s>",
    "<s>turn</s><s>next turn</s>", "<unk>", "x<sep>y", "<sep>", " <sep> ", "<sep><sep>two", "<|end|>tail", "head <|end|>", "< s>", "<s", "<|en d|>",
    "<0x41>b", "1234567890", "3.14159", "x = y[0] + 1;", "https://example.com/a?b=c&d=e", "\uFF21\uFF22\uFF23 wide", "a\u00A0b", "\U0010FFFF", "aaaaaaaaaaaa",
    "-----", "=========", "The worker keeps the cache of each sequence in pages.", "tokenizer tokenizers TOKENIZER", "don't won't it's",
    "ünïcödé mixed with 中文 and русский text",
]  # fmt: skip


def fields(message):
    """Fields of a protobuf message with their values."""
    at = 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = number()
        kind = key & 7
        if kind == 0:
            yield key >> 3, number()
            continue
        size = number() if kind == 2 else {1: 8, 5: 4}[kind]
        yield key >> 3, message[at : at + size]
        at += size


def charsmap(model):
    normalizer_spec = dict(fields(dict(fields(model))[3]))
    return normalizer_spec.get(2, b"")


def train(folder, kind, vocab_size, **options):
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    lines = [line for page in pages for line in page.read_text("utf-8").splitlines()] + OTHER_LINES * 20
    corpus, rules, prefix = folder / "corpus.txt", folder / "rules.tsv", folder / "model"
    corpus.write_text("\n".join(lines), "utf-8")
    rules.write_text("".join(f"{wide:X}\t{plain:X}\n" for wide, plain in RULES.items()))
    if options.pop("rules", False):
        options["normalization_rule_tsv"] = str(rules)
    else:
        options["normalization_rule_name"] = "identity"
    sentencepiece.SentencePieceTrainer.train(
        input=str(corpus), model_prefix=str(prefix), model_type=kind, vocab_size=vocab_size, character_coverage=0.999, num_threads=1,
        control_symbols=["<|end|>"], required_chars="<>/", max_sentence_length=20000, minloglevel=2, **options,
    )  # fmt: skip
    return prefix.with_suffix(".model").read_bytes()


def token_type(processor, index, user_defined):
    if processor.IsUnknown(index):
        return UNKNOWN
    if processor.IsControl(index):
        return CONTROL
    if processor.IsByte(index):
        return BYTE
    return USER_DEFINED if processor.IdToPiece(index) in user_defined else NORMAL


def merges(pieces, scores, types):
    """Pairs of pieces that make a piece, the best score first, by looking at all cuts of all pieces."""
    usable = {piece for piece, kind in zip(pieces, types, strict=True) if kind in (NORMAL, USER_DEFINED)}
    order = {piece: (-score, index) for index, (piece, score) in enumerate(zip(pieces, scores, strict=True))}
    pairs = []
    for piece in sorted(usable, key=order.get):
        pairs += [[piece[:cut], piece[cut:]] for cut in range(1, len(piece)) if piece[:cut] in usable and piece[cut:] in usable]
    return pairs


def added_tokens(pieces, types):
    return [
        {"id": index, "content": piece, "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": types[index] == USER_DEFINED and SPACE in piece, "special": types[index] != USER_DEFINED}
        for index, piece in enumerate(pieces) if types[index] in (UNKNOWN, CONTROL, USER_DEFINED)
    ]  # fmt: skip


def converted(kind, pieces, scores, types, options, table):
    """The tokenizer.json."""
    has_bytes = BYTE in types
    steps = [{"type": "Precompiled", "precompiled_charsmap": table}] if table else []
    if options["remove_extra_whitespaces"]:
        steps += [{"type": "Replace", "pattern": {"Regex": f"\\A +|[ {SPACE}]+\\z"}, "content": ""},
                  {"type": "Replace", "pattern": {"Regex": " +"}, "content": " "}]  # fmt: skip
    if options["add_dummy_prefix"]:
        steps.append({"type": "Prepend", "prepend": SPACE})
    steps.append({"type": "Replace", "pattern": {"String": " "}, "content": SPACE})
    decoders = [{"type": "Replace", "pattern": {"String": SPACE}, "content": " "}]
    decoders += [{"type": "ByteFallback"}] if has_bytes else []
    decoders += [{"type": "Fuse"}]
    decoders += [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if options["add_dummy_prefix"] else []
    if kind == "bpe":
        model = {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None, "end_of_word_suffix": None,
                 "fuse_unk": True, "byte_fallback": has_bytes, "ignore_merges": False,
                 "vocab": {piece: index for index, piece in enumerate(pieces)}, "merges": merges(pieces, scores, types)}  # fmt: skip
    else:
        vocab = [[piece, score] for piece, score in zip(pieces, scores, strict=True)]
        model = {"type": "Unigram", "unk_id": types.index(UNKNOWN), "byte_fallback": has_bytes, "vocab": vocab}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added_tokens(pieces, types),
            "normalizer": {"type": "Sequence", "normalizers": steps}, "pre_tokenizer": None, "post_processor": None,
            "decoder": {"type": "Sequence", "decoders": decoders}, "model": model}  # fmt: skip


def row(processor, pieces, types, text):
    """The ids of a text, the text that they give one after the other, and SentencePiece's own text of them."""
    added = {piece.replace(SPACE, " ") if types[index] == USER_DEFINED else piece: index
             for index, piece in enumerate(pieces) if types[index] in (UNKNOWN, CONTROL, USER_DEFINED)}  # fmt: skip
    pattern = "|".join(re.escape(special) for special in sorted(added, key=len, reverse=True))
    ids = []
    for part in re.split(f"({pattern})", text):
        ids += [added[part]] if part in added else processor.encode(part)
    stream = b""
    for index in ids:
        piece = pieces[index]
        literal = types[index] in (UNKNOWN, CONTROL)
        stream += bytes([int(piece[3:5], 16)]) if types[index] == BYTE else (piece if literal else piece.replace(SPACE, " ")).encode()
    plain = all(types[index] in (NORMAL, BYTE) for index in ids)
    return {"text": text, "ids": ids, "stream": stream.decode("utf-8"), "decoded": processor.decode(ids) if plain else None}


def case(name, kind, vocab_size, user_defined=(), **options):
    options = {"add_dummy_prefix": True, "remove_extra_whitespaces": False, "byte_fallback": True, **options}
    with tempfile.TemporaryDirectory() as folder:
        model = train(pathlib.Path(folder), kind, vocab_size, user_defined_symbols=list(user_defined), **options)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    size = processor.GetPieceSize()
    pieces = [processor.IdToPiece(index) for index in range(size)]
    scores = [float(f"{processor.GetScore(index):.9g}") for index in range(size)]
    types = [token_type(processor, index, user_defined) for index in range(size)]
    table = base64.b64encode(charsmap(model)).decode()
    document = converted(kind, pieces, scores, types, options, table)
    rows = [row(processor, pieces, types, text) for text in TEXTS]
    check = tokenizers.Tokenizer.from_str(json.dumps(document))
    for entry in rows:
        ids = check.encode(entry["text"], add_special_tokens=False).ids
        # The crate also finds the tokens of bytes where their six characters are written.
        entry["gguf_only"] = ids != entry["ids"]
        # A GGUF file writes the spaces of a user's token as spaces, so that U+2581 in a text is not the token.
        entry["json_only"] = any(run in entry["text"] for run in user_defined if SPACE in run)
        if entry["gguf_only"]:
            print(f"{name}: the tokenizer.json gives other ids for {entry['text']!r}: {ids}, not {entry['ids']}")
    spelled = [piece.replace(SPACE, " ") if kind == USER_DEFINED else piece for piece, kind in zip(pieces, types, strict=True)]
    gguf = {"model": "llama" if kind == "bpe" else "t5", "tokens": spelled, "scores": scores, "token_type": types,
            "add_space_prefix": options["add_dummy_prefix"], "remove_extra_whitespaces": options["remove_extra_whitespaces"],
            "precompiled_charsmap": table, "unknown_token_id": processor.unk_id()}  # fmt: skip
    return {"name": name, "gguf": gguf, "tokenizer_json": document, "rows": rows}


def main():
    runs = [SPACE * count for count in (2, 3, 4, 8)] + ["\n\n", "\n\n\n"]
    cases = [
        case("llama", "bpe", 700, ["<sep>"]),
        case("gemma", "bpe", 560, ["<sep>", *runs], add_dummy_prefix=False),
        case("unigram", "unigram", 560, ["<sep>"], remove_extra_whitespaces=True, rules=True),
        case("unigram without bytes", "unigram", 300, ["<sep>"], byte_fallback=False),
        case("pairs without bytes", "bpe", 260, ["<sep>"], byte_fallback=False),
    ]
    lines = ",\n".join(json.dumps(entry, ensure_ascii=False, separators=(",", ":")) for entry in cases)
    pathlib.Path(sys.argv[1]).write_text(f"[{lines}]\n", "utf-8")


if __name__ == "__main__":
    main()
