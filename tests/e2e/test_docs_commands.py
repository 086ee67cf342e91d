"""The commands of README.md and docs/ run: the README's own lines start the daemons, and folioctl asks them as shown.

tests/rules/test_commands.py checks every command of every page without running it. Here are those that need no more than
a manager and a worker on the reference model. The flags that it reads in the sources are compared with --help.
"""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

import pytest
from node import BIN, MODEL, Node, Process, wait_until
from stubs import ROOT

sys.path.insert(0, str(ROOT / "tests/rules"))
import programs  # noqa: E402
from command_checks import is_program  # noqa: E402
from commands import blocks, commands  # noqa: E402

PAGES = ["README.md", *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md"))]
DAEMONS = ("folio-manager", "folio-worker")
# Words of the pages, and what stands for them here. Ports are any that are free.
STANDS_FOR = {"MODEL.gguf": MODEL, "=4GiB": "=1GiB", "=40GiB": "=1GiB"}
PROMPT = "The special number is 42. " + "The grass is green. The sky is blue. " * 20 + "The special number is"
SAID = "What is the capital of France?\n/quit\n"  # in `folioctl chat`


def shown(*names):
    """The commands of these programs, each text once. A name alone is no command."""
    found = {}
    for page in PAGES:
        for command in commands(page, (ROOT / page).read_text(), is_program):
            if command.words[0] in names and (command.block or len(command.words) > 1):
                found.setdefault(tuple(command.words), command)
    return [pytest.param(command, id=f"{command.page}:{command.line}") for command in found.values()]


def filled(words, folder):
    """The words with what is here for what a page names."""
    table = {**STANDS_FOR, "/run/folio": f"{folder}/folio", "prompt.txt": f"{folder}/prompt.txt",
             "FILE.tar.gz": f"{folder}/support.tar.gz", "alice.token": f"{folder}/alice.token"}  # fmt: skip
    for name, value in table.items():
        words = [word.replace(name, value) for word in words]
    return [re.sub(r"^(--\w*listen=[^:]*):7\d\d\d$", r"\1:0", word) for word in words]


class Pair:
    """Both daemons at their default addresses, which are in a folder of the test, and a shell's way to ask them."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.environment = {name: value for name, value in os.environ.items() if not name.endswith("_ADDRESS")}
        self.environment.update(XDG_RUNTIME_DIR=str(folder), LC_ALL="C.UTF-8")

    def run(self, words, program=None, **options):
        """What it prints. Fails unless it ends with 0."""
        # The contexts of the pages are elsewhere.
        config = "shown.json" if words[1:2] == ["config"] else "none.json"
        done = subprocess.run([program or BIN / words[0], *filled(words[1:], self.folder)], capture_output=True, text=True,
                              timeout=120, env={**self.environment, "FOLIO_CONFIG": f"{self.folder}/{config}"},
                              **options)  # fmt: skip
        assert done.returncode == 0, f"{words}: {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout

    def follow(self, words):
        """Ends with Ctrl-C once something was printed."""
        process = subprocess.Popen([BIN / words[0], *words[1:]], stdout=subprocess.PIPE, env=self.environment)
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 130

    def open_sequences(self):
        return json.loads(self.run(["folioctl", "sequences", "--output", "json"])).get("sequences", [])

    @contextlib.contextmanager
    def sequence(self):
        """The id of a sequence that decodes meanwhile."""
        wait_until(lambda: not self.open_sequences(), 60, "the one before is closed")
        words = ["generate", PROMPT, "--policy", "paged_eviction", "--budget", "64", "--max_tokens", "7000", "--ignore_eos"]
        process = subprocess.Popen([BIN / "folioctl", *words], stdout=subprocess.DEVNULL, env=self.environment)
        try:
            wait_until(lambda: int(next(iter(self.open_sequences()), {}).get("evicted_tokens", 0)), 120, "its prompt is compacted")
            yield self.open_sequences()[0]["sequence_id"]
        finally:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def pair():
    """The daemons that the block of README.md starts."""
    started = []
    with tempfile.TemporaryDirectory(prefix="folio-docs.") as folder:
        pair = Pair(folder)
        (pair.folder / "prompt.txt").write_text(PROMPT)
        try:
            for command in (param.values[0] for param in shown(*DAEMONS)):
                if command.page == "README.md" and command.block:
                    name = command.words[0]
                    log = pair.folder / f"{name}.log"
                    started.append(Process(name, filled(command.words[1:], folder), log, pair.environment))
            assert [process.name for process in started] == list(DAEMONS)

            def serving():
                assert all(process.running() for process in started), "\n".join(process.words() for process in started)
                return subprocess.run([BIN / "folioctl", "health"], env=pair.environment, capture_output=True).returncode == 0

            wait_until(serving, 120, "both daemons of README.md serve")
            yield pair
            for process in reversed(started):
                process.stop()
                assert process.popen.returncode == 0, process.words()
        finally:
            for process in started:
                process.popen.kill()
                process.wait()


def test_the_pages_show_enough():
    assert len(shown("folioctl")) >= 10 and len(shown(*DAEMONS)) >= 6, "does tests/rules/commands.py still understand them?"


@pytest.mark.parametrize("command", shown("folioctl"))
def test_folioctl_does_what_the_page_shows(pair, command):
    words = list(command.words)
    if words[1] in ("sequence", "explain"):
        with pair.sequence() as identity:
            assert words[2].isdigit()
            assert pair.run([*words[:2], identity, *words[3:]]).strip()
    elif "--follow" in words:
        pair.follow(words)
    elif words[1] == "chat":
        assert "Paris" in pair.run(words, input=SAID)
    elif words[1] == "top":
        assert pair.run([*words, "--once"]).strip()
    else:
        assert pair.run(words, stdin=subprocess.DEVNULL).strip()


def test_a_wrong_command_fails(pair):
    for words, why in ((["folioctl", "pools", "--verbose"], "verbose"), (["folioctl", "sequence", "123456789"], "NOT_FOUND")):
        with pytest.raises(AssertionError, match=why):
            pair.run(words)


def with_output(page):
    """(lines of a block of shell, lines of the block right behind it, which has no language)."""
    found = list(blocks((ROOT / page).read_text()))
    for (_, start, language, lines), (_, behind, other, output) in zip(found, found[1:], strict=False):
        if language == "sh" and not other and behind == start + len(lines) + 3:
            yield lines, output


def test_shown_output_is_what_the_command_prints(pair):
    found = [pair_of for page in PAGES for pair_of in with_output(page)]
    assert found
    for lines, output in found:
        (command,) = commands("", "```sh\n" + "\n".join(lines) + "\n```\n", is_program)
        assert pair.run(command.words) == "\n".join(output) + "\n"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """The folder in which the page's commands have made an authority, and certificates for a server and a client."""
    folder = tmp_path_factory.mktemp("certificates")
    made = [param.values[0].words for param in shown("openssl")]
    assert len(made) == 3
    for words in made:
        subprocess.run(words, cwd=folder, check=True, capture_output=True, timeout=120)
    return folder


@pytest.mark.parametrize("certificate, options, good", [
    ("tls", ["-purpose", "sslserver", "-verify_hostname", "worker.example.com"], True),
    ("tls", ["-purpose", "sslserver", "-verify_ip", "10.0.0.7"], True),
    ("tls", ["-purpose", "sslserver", "-verify_hostname", "other.example.com"], False),
    ("client", ["-purpose", "sslclient"], True),
])
def test_certificates_of_the_page_are_good(certificates, certificate, options, good):
    words = ["openssl", "verify", "-x509_strict", "-no-CApath", "-CAfile", "ca.crt", *options, f"{certificate}.crt"]
    done = subprocess.run(words, cwd=certificates, capture_output=True, text=True, timeout=60)
    assert (done.returncode == 0) == good, done.stdout + done.stderr


def test_python_of_the_front_page(pair):
    programs_shown = [lines for _, _, language, lines in blocks((ROOT / "README.md").read_text()) if language == "python"]
    assert programs_shown
    for lines in programs_shown:
        assert pair.run([sys.executable, "-c", "\n".join(lines)], sys.executable).strip()


def refused(words, folder):
    """What a daemon says that cannot start here. Fails if it is because of the flags themselves, for which the code is 2."""
    needs = [f"--manager=unix:{folder}/none.sock", f"--model={MODEL}"] if words[0] == "folio-worker" else []
    done = subprocess.run([BIN / words[0], f"--listen=unix:{folder}/d.sock", *needs, *filled(words[1:], folder)],
                          capture_output=True, text=True, timeout=120)  # fmt: skip
    assert done.returncode == 1, f"{words}: {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


@pytest.mark.parametrize("command", [param for param in shown(*DAEMONS) if param.values[0].page != "README.md"])
def test_daemons_take_the_flags_that_the_page_shows(tmp_path, command):
    program, flags = command.words[0], filled(command.words[1:], tmp_path)
    if flags == ["--help"]:
        assert "Flags" in subprocess.run([BIN / program, *flags], capture_output=True, text=True, check=True).stdout
    elif any("cuda" in flag for flag in flags):
        if os.path.exists("/dev/nvidiactl"):
            pytest.skip("there is a GPU, so nothing is refused")
        assert "--device=cuda" in refused(command.words, tmp_path)
    elif program == "folio-manager":
        with Node(manager_flags=flags) as node:
            node.assert_alive()
    else:
        pools = [flag.removeprefix("--pool=") for flag in flags if flag.startswith("--pool=")]
        with Node(manager_flags=[f"--pools={name}:50%" for name in pools]) as node:
            # The node's own address stands for the one of the page.
            node.start_worker(flags=[flag for flag in flags if not flag.startswith("--listen=unix:")])
            node.assert_alive()


def test_a_wrong_flag_is_not_taken_for_a_missing_gpu(tmp_path):
    with pytest.raises(AssertionError, match="devices"):
        refused(["folio-manager", "--devices=cuda:0"], tmp_path)


def listed(*words):
    """(text, flags) of a program's help."""
    text = subprocess.run([BIN / words[0], *words[1:], "--help"], capture_output=True, text=True, check=True, timeout=60).stdout
    return text, set(re.findall(r"^  (?:-h,)?--(\w+)", text, re.M))


def subcommands(text):
    return set(re.findall(r"^  ([\w-]+) {2,}", text.partition("Subcommands:")[2].partition("Examples:")[0], re.M))


@pytest.mark.parametrize("name", DAEMONS)
def test_flags_of_a_daemon_are_those_of_its_sources(name):
    # --help itself is not in the list.
    assert listed(name)[1] | {"help"} == programs.daemon_flags(name)


def test_flags_of_folioctl_are_those_of_its_sources():
    known = dict(programs.client_flags())
    every = known.pop("")
    text, general = listed("folioctl")
    assert general == every
    assert subcommands(text) == known.keys()
    for command, flags in known.items():
        text, own = listed("folioctl", command)
        own = own.union(*(listed("folioctl", command, below)[1] for below in subcommands(text)))
        assert own | every == flags, command
