"""Writes RULER's synthetic tasks as files, with the generators that lm-evaluation-harness carries.

    python generate.py --tokenizer DIRECTORY --novel TEXT --out FOLDER --lengths 2048,4096 [--tasks vt,cwe] [--records 64]

RULER (arXiv 2404.06654) makes its prompts when it is asked to, for the tokenizer and the length of a model. Each file
FOLDER/LENGTH/TASK.jsonl has one record per line: `input`, `outputs`, `length` and `answer_prefix`, which is the form in which RULER
itself writes them. `ruler.sh` makes the environment. Two things differ from the harness:

- It hides needles in essays of Paul Graham, which it loads from the hub. Here they are hidden in the words of TEXT, which are split
  into sentences behind full stops, so that no data of NLTK are needed.
- The worked example of `cwe` comes before the question, as in RULER. The harness makes it and does not show it.

Its two tasks out of data sets (`qa_squad`, `qa_hotpot`) are not made.
"""

import argparse
import json
import os
import pathlib
import random
import re
import sys

import numpy

os.environ["LOCAL_RANK"] = "1"  # at import, only rank 0 downloads data for NLTK

NEEDLES = ("niah_single_1", "niah_single_2", "niah_single_3", "niah_multikey_1", "niah_multikey_2", "niah_multikey_3",
           "niah_multivalue", "niah_multiquery")  # fmt: skip
TASKS = (*NEEDLES, "vt", "cwe", "fwe")


def sentences(text):
    return tuple(re.split(r"(?<=[.!?]) ", text))


def makers(words):
    """For each task the harness' function that makes its records, with `words` in place of the essays."""
    from lm_eval.tasks.ruler import cwe_utils, fwe_utils, niah_utils, prepare_niah, vt_utils

    own = niah_utils.get_haystack
    niah_utils.get_haystack = lambda type_haystack: words if type_haystack == "essay" else own(type_haystack=type_haystack)
    prepare_niah.cached_sent_tokenize = sentences
    made = {name: getattr(niah_utils, name) for name in NEEDLES}
    return {**made, "vt": vt_utils.get_vt_dataset, "cwe": cwe_utils.get_cw_dataset, "fwe": fwe_utils.fwe_download}


def as_ruler_writes(record):
    """One record of the harness, in the fields of RULER's own files."""
    example = record.get("input_example")
    text = f"{example}\n{record['input']}" if example else record["input"]
    return {
        "index": record["index"],
        "input": text.strip(),
        "outputs": list(record["outputs"]),
        "length": record["length"],
        "answer_prefix": record["gen_prefix"],
    }


def write(path, records):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(as_ruler_writes(record)) + "\n" for record in records))


def arguments(given):
    parser = argparse.ArgumentParser(prog="generate.py", description="Writes RULER's synthetic tasks as files.")
    parser.add_argument("--tokenizer", required=True, help="a model's Hugging Face directory: lengths are in its tokens")
    parser.add_argument("--novel", required=True, help="the text that stands where RULER has essays")
    parser.add_argument("--out", required=True, help="the folder: FOLDER/LENGTH/TASK.jsonl")
    parser.add_argument("--lengths", default="4096", help="tokens of prompt and answer, such as 2048,4096")
    parser.add_argument("--tasks", default=",".join(TASKS), help=f"of {', '.join(TASKS)} (default: all)")
    parser.add_argument("--records", type=int, default=64, help="records of each file, 1 to 500 (default: 64)")
    parser.add_argument("--seed", type=int, default=0, help="(default: 0)")
    args = parser.parse_args(given)
    args.tasks = args.tasks.split(",")
    if unknown := [name for name in args.tasks if name not in TASKS]:
        parser.error(f"--tasks: {', '.join(unknown)} is not one of {', '.join(TASKS)}")
    if not 1 <= args.records <= 500:
        parser.error("--records: must be from 1 to 500")
    try:
        args.lengths = [int(length) for length in args.lengths.split(",")]
    except ValueError:
        parser.error("--lengths: must be whole numbers with commas between them")
    return args


def main(given):
    args = arguments(given)
    made = makers(re.sub(r"\s+", " ", pathlib.Path(args.novel).read_text()).split(" "))
    for length in args.lengths:
        for task in args.tasks:
            # Each file repeats from its seed, whatever else is made. The generators draw from these two alone.
            random.seed(f"{args.seed} {length} {task}")
            numpy.random.seed(random.getrandbits(32))
            path = pathlib.Path(args.out) / str(length) / f"{task}.jsonl"
            print(f"[ruler] {path}", file=sys.stderr)
            write(path, made[task](tokenizer=args.tokenizer, max_seq_lengths=[length])["test"].select(range(args.records)))


if __name__ == "__main__":
    main(sys.argv[1:])
