"""The completion of folioctl in bash, and its manual pages in man."""

import shutil
import subprocess

import pytest


def test_completion_in_bash(folioctl):
    script = folioctl("completion", "bash")

    def complete(*words):
        ask = f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _folioctl; echo ${{COMPREPLY[@]}}"
        done = subprocess.run(["bash", "-c", f"{script}\n{ask}"], capture_output=True, text=True, check=True)
        return done.stdout.split()

    assert complete("folioctl", "qua") == ["quarantine"]
    assert "release" in complete("folioctl", "quarantine", "''")
    assert complete("folioctl", "--output", "y") == ["yaml"]
    assert complete("folioctl", "pools", "--output", "=", "ya") == ["yaml"]
    assert complete("folioctl", "generate", "--policy", "paged") == ["paged_eviction"]
    assert complete("folioctl", "config", "use") == ["use-context"]
    assert "--compaction_stride" in complete("folioctl", "generate", "--comp")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_read_their_completion(folioctl, tmp_path, shell):
    script = tmp_path / "completion"
    script.write_text(folioctl("completion", shell))
    for word in ("quarantine", "paged_eviction", "use-context", "yaml"):
        assert word in script.read_text()
    if shutil.which(shell):
        subprocess.run([shell, "-n", script], check=True)


def test_every_command_has_a_page(folioctl, tmp_path):
    folioctl("man", "--directory", tmp_path)
    pages = {page.name for page in tmp_path.iterdir()}
    assert {"folioctl.1", "folioctl-sequence.1", "folioctl-quarantine-release.1"} <= pages
    assert ".SH EXAMPLES" in (tmp_path / "folioctl-events.1").read_text()
