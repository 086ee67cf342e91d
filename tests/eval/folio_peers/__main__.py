"""Asks the questions of folio_eval under kvpress' own presses (arXiv 2510.00636), on the reference model in PyTorch.

    python -m folio_peers --tasks needle_4_prose:blind --presses full,CompactorPress,KVzipPress --budgets 256 --out peers.jsonl

kvpress runs in an environment of its own (tests/parity/README.md), in which the reference model is a directory in the form of Hugging
Face. The lines are those of folio_eval, so its `compare` and `report` read them."""

import contextlib
import json
import os
import pathlib
import subprocess

from folio_eval import cells, cli, together
from folio_eval.cells import FULL, Setting

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("FOLIO_CACHE") or pathlib.Path(os.environ.get("XDG_CACHE_HOME", "~/.cache"), "folio"))


def parser():
    top = together.parser("folio_peers", __doc__.splitlines()[0])
    top.add_argument("--presses", type=cli.listed(), required=True, help="class names of kvpress, and full")
    top.add_argument("--directory", default=os.environ.get("FOLIO_MODEL_HF"), help="the model for PyTorch ($FOLIO_MODEL_HF)")
    top.add_argument(
        "--python",
        default=CACHE.expanduser() / "parity-venv/bin/python",
        help="interpreter with kvpress (%(default)s)",
    )
    return top


class PeerError(Exception):
    """kvpress' process does not answer."""


class Presses:
    """The process that runs kvpress. It answers one question at a time."""

    def __init__(self, python, directory, threads):
        command = [python, HERE / "presses.py", directory, str(threads)]
        environment = {**os.environ, "TQDM_DISABLE": "1", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
        environment["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()

    def __call__(self, asked):
        item = asked.item
        tail = item.forced + item.answer
        # The full cache is asked in any case, because divergences are from its distributions.
        settings = [Setting(FULL), *asked.settings]
        pairs = [(setting.policy, setting.budget) for setting in settings]
        question = {"prompt": item.prompt, "tail": tail, "start": len(item.forced), "settings": pairs}
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps(question), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise PeerError(f"the process that runs kvpress ended with status {self._process.wait()}; its words are above")
        return json.loads(line)


def measured(asked, said):
    """The measures of each answer but the first, which is the full cache's."""
    full, *others = (answer_of(asked.item, one) for one in said)
    return [together.measured(asked.task, asked.item, one, full) for one in others]


def answer_of(item, said):
    known = [dict(map(tuple, top)) | {token: own} for top, token, own in zip(said["tops"], item.answer, said["logprobs"])]
    return together.Answer(said["logprobs"], said["best"], known)


def main():
    options = parser().parse_args()
    presses = list(dict.fromkeys(["full", *options.presses]))
    wanted = cells.grid(options.tasks, presses, options.budgets, options.lengths, options.seeds, spell=str)
    prompts = together.Prompts(options, wanted)
    with Presses(options.python, options.directory, options.jobs) as ask:
        prompts.write(measured(asked, ask(asked)) for asked in prompts.asked)


if __name__ == "__main__":
    main()
