"""The commands that pages show are right: programs, flags, targets, units, packages, values and files exist.

tests/e2e/test_docs_commands.py runs those that a pair of daemons on the reference model can answer.
"""

import re

import programs
import pytest
from command_checks import UNCHECKED, check_of, faults, flag_faults, is_program, unknown_flags
from commands import Command, NotUnderstood, blocks, commands, flags, parts, spans
from test_layout import ROOT
from test_links import pages as all_pages

OURS = re.compile(r"^\s*(sudo )?(folio-manager|folio-worker|folio-gateway|folioctl|deploy/\S+\.sh|helm|systemctl) +[\w-]")


def pages():
    """Pages about how things are. Those about how things were may name what is gone."""
    return [page for page in all_pages() if page != "CHANGELOG.md" and not re.search(r"/results/.*\d{4}-\d\d-\d\d", page)]


def shown():
    return [command for page in pages() for command in commands(page, (ROOT / page).read_text(), is_program)]


def test_commands_are_right():
    found = shown()
    assert len(found) > 150 and sum(command.block > 0 for command in found) > 50, "does commands.py still understand the pages?"
    wrong = [f"{command.page}:{command.line}: {fault}: {command.text}" for command in found for fault in faults(command)]
    assert not wrong, "\n".join(wrong)


def test_flags_alone_are_right():
    found = [(page, line, flag) for page in pages() for line, flag in flags(page, (ROOT / page).read_text())]
    assert len(found) > 60
    wrong = [f"{page}:{line}: {fault}" for page, line, flag in found for fault in flag_faults(flag, page, (ROOT / page).read_text())]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("role", ["manager", "worker"])
def test_flag_files_of_the_packages_are_right(role):
    """Also the flags that only a comment shows."""
    found = re.findall(r"^#? ?(--\w+)=", programs.read(f"deploy/debian/{role}.flags"), re.M)
    assert len(found) > 5 and not unknown_flags(found, programs.daemon_flags(f"folio-{role}"))


def test_commands_stand_in_blocks_of_shell():
    """A command in another block would not be checked."""
    wrong = [f"{page}:{line + number}: begin the block with ```sh: {words}" for page in pages()
             for _, line, language, lines in blocks((ROOT / page).read_text()) if language != "sh"
             for number, words in enumerate(lines) if OURS.match(words)]
    assert not wrong, "\n".join(wrong)


def test_each_unchecked_program_is_on_a_page():
    named = {command.words[0] for command in shown()}
    assert not UNCHECKED.keys() - named, "these need no reason any more"
    assert not [name for name in UNCHECKED if check_of(name)]


WRONG = {
    "folioctl pools --verbose": "no flag --verbose",
    "folioctl pool": "none of the commands",
    "folioctl generate x --pages": "no flag --pages",
    "folioctl --adress unix:/a pools": "no flag --adress",
    "folio-manager --pool_size=4GiB": "no flag --pool_size=4GiB",
    "folio-manager start": "start is not a flag",
    "folio-worker --max_budget=1": "no flag --max_budget=1",
    "deploy/instal.sh": "there is no deploy/instal.sh",
    "deploy/packages.cmake": "no check knows deploy/packages.cmake",
    "deploy/setup.sh --test": "no flag --test",
    "deploy/commit.py && tests/rules/commands.py": "tests/rules/commands.py cannot be run",
    "deploy/build.sh build -DFOLIO_CUDE=ON": "no CMakeLists.txt has an option FOLIO_CUDE",
    "deploy/build.sh build -- polcy_test": "no CMakeLists.txt makes polcy_test",
    "deploy/images/build.sh --archive=DIR": "no flag --archive=DIR",
    "build/bin/polcy_test": "no CMakeLists.txt makes polcy_test",
    "build/bin/policy_test --gtest_filter='KvCrunch*'": "no test is called KvCrunch*",
    "build/bin/folio_bench --modle=x": "no flag --modle=x",
    "ctest --test-dir build -R KvCrunch": "no test's name has KvCrunch",
    "ctest --tests build": "tried option --tests",
    "cmake --instal build": "tried option --instal",
    "$(tests/python.sh) -m pytest tests/e2e/test_memories.py": "there is no tests/e2e/test_memories.py",
    "$(tests/python.sh) -m pytest tests/e2e/test_memory.py -k butget": "no test's name has butget",
    "$(tests/pythons.sh) -m pytest tests/rules": "there is no tests/pythons.sh",
    "cd tests/eval && python3 -m folio_eval run --task x": "no flag --task",
    "cd tests/gpu && python3 -m suite.marge": "no module suite.marge",
    "cd tests/evil": "there is no tests/evil",
    "python3 tests/rules/language.py --ratchets": "no flag --ratchets",
    "pip install services/client": "no package of ours",
    "sudo apt install ./build/packages/folios-*.deb": "makes nothing that is called ./build/packages/folios-*.deb",
    "sudo apt install ./build/folio-*.deb": "makes nothing that is called ./build/folio-*.deb",
    "sudo apt purge folio-mangler": "folio-mangler is not a package of ours",
    "sudo systemctl start folio-wroker": "no unit folio-wroker",
    "sudo systemctl begin folio-worker": "tried: systemctl begin folio-worker",
    "journalctl -u folio": "no unit folio",
    "adduser NAME folios": "make the group folio",
    "cp MODEL.gguf /var/lib/folio/model": "/var/lib/folio/model is not where",
    "export FOLIO_MODLE=x": "nothing reads FOLIO_MODLE",
    "curl http://localhost:7000/metrics": "only metrics and paths of the gateway",
    "curl http://localhost:8000/v1/chat/completion -d x": "only metrics and paths of the gateway",
    "grpcurl -plaintext -unix /run/folio/worker.sock folio.v1.Inference/Generat": "no call folio.v1.Inference/Generat",
    "helm install folio helm/folio --set image.registy=x": "no value image.registy",
    "helm install folio helm/folio --set worker.probes.path=x": "no value worker.probes.path",
    "helm install folio helm/folios": "there is no helm/folios",
    "helm instal folio helm/folio": "tried: helm instal",
    "make install": "no check knows make",
}


def wrong_of(line):
    page = f"```sh\n{line}\n```\n"
    return [fault for command in commands("README.md", page, is_program) for fault in faults(command)]


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_command_is_found(line):
    assert WRONG[line] in "\n".join(wrong_of(line))


def test_a_wrong_span_is_found():
    page = "Run `folioctl pools\n--verbose`, or `systemctl restart folio-mangler`, with `--pool_size`, but not `made up`."
    found = list(commands("README.md", page, is_program))
    assert [command.line for command in found] == [1, 2]
    assert [fault for command in found for fault in faults(command)] == [
        "there is no flag --verbose", "the packages have no unit folio-mangler"]
    assert [fault for _, flag in flags("README.md", page) for fault in flag_faults(flag, "README.md", page)] == [
        "there is no flag --pool_size"]


@pytest.mark.parametrize("line, expected", [
    ("sudo A=b cp x y  # a remark", [["cp", "x", "y"]]),
    ("one 'two # three' && four | five; six &", [["one", "two # three"], ["four"], ["five"], ["six"]]),
    ('export A="$(b c)/d" E=f', [["b", "c"], ["export", "A=SUBSTITUTION/d", "E=f"]]),
    ("a=$(b); $(c) d >e 2>f", [["b"], ["c"], ["SUBSTITUTION", "d"]]),
    ("# a remark alone", []),
])
def test_understands_lines(line, expected):
    assert list(parts(line)) == expected


@pytest.mark.parametrize("line", ["(cd a; b)", "echo 'a", "cat <<EOF"])
def test_refuses_lines_that_it_does_not_understand(line):
    with pytest.raises(NotUnderstood):
        list(parts(line))


def test_understands_pages():
    page = "`a b`\n\n```sh\nfirst \\\n  --more  # remark\ncd tests/eval\n../python.sh\n```\n\n`second\nline`\n\n```\n`not this`\n```\n"
    found = list(commands("README.md", page, lambda words: words[0] in ("a", "second")))
    assert [(command.line, command.words, command.block) for command in found] == [
        (4, ["first", "--more"], 1), (6, ["cd", "tests/eval"], 1), (7, ["tests/python.sh"], 1),
        (1, ["a", "b"], 0), (10, ["second", "line"], 0)]
    assert [words for _, words in spans(page)] == ["a b", "second line"]
    assert isinstance(found[0], Command) and found[2].folder == "tests/eval"


def test_reads_flags_of_the_sources():
    assert {"listen", "pool_bytes", "log_format", "flagfile"} <= programs.daemon_flags("folio-manager")
    assert "model" not in programs.daemon_flags("folio-manager") and "tp" in programs.daemon_flags("folio-worker")
    folioctl = programs.client_flags()
    tls = {"tls", "tls_ca", "tls_cert", "tls_key", "tls_server_name", "token", "token_file"}
    assert len(folioctl) == 35 and folioctl[""] == {"help", "address", "context", "output", "query", "timeout", "version"} | tls
    assert {"policy", "seed", "max_tokens", "file", "stats"} <= folioctl["generate"] and "pages" not in folioctl["generate"]
    assert {"concurrency", "policy", "budget", "temperature"} <= folioctl["bench"] and "max_tokens" not in folioctl["bench"]
    assert folioctl["pools"] == folioctl[""] and "scores" in folioctl["explain"]
    assert programs.script_flags("deploy/images/build.sh") >= {"archives", "run-base", "help"}
    assert "label" not in programs.script_flags("deploy/images/build.sh"), "it only passes this one on"
