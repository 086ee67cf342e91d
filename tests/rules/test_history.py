""".ci/history finds the commits that break the rules of history, in full and in shallow clones."""

import os
import pathlib
import subprocess

import pytest

CHECK = pathlib.Path(__file__).resolve().parents[2] / ".ci/history"
WHY = "\n\nA reader of the old code had to look in three places for one number. A table was tried first and was longer."


class Repository:
    def __init__(self, path):
        self.path = path
        self.count = 0
        path.mkdir()
        self.git("init", "-q", "-b", "main")
        self.commit("Before the rules; no area", lines=500)
        self.base = self.git("rev-parse", "HEAD").strip()

    def git(self, *arguments):
        # Settings of the machine, such as signing or templates, must not reach these commits.
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.path), "GIT_CONFIG_GLOBAL": os.devnull,
                       "GIT_CONFIG_SYSTEM": os.devnull}
        name = ("-c", "user.name=Test", "-c", "user.email=test@example.org")
        return subprocess.run(["git", *name, *arguments], cwd=self.path, env=environment, capture_output=True,
                              text=True, check=True).stdout

    def commit(self, message, lines=1):
        self.count += 1
        (self.path / f"file{self.count}").write_text("line\n" * lines)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)

    def check(self, *arguments):
        return check(self.path, *arguments)


def check(path, *arguments):
    # No repository above the folder counts.
    environment = {"PATH": os.environ["PATH"], "HOME": str(path), "GIT_CEILING_DIRECTORIES": str(path.parent)}
    return subprocess.run([CHECK, *arguments], cwd=path, env=environment, capture_output=True, text=True)


@pytest.fixture
def repository(tmp_path):
    return Repository(tmp_path / "repository")


@pytest.mark.parametrize(
    "message, lines, fault",
    [
        ("Cache: a page has one owner", 10, None),
        ("Cache: a page has one owner" + WHY, 900, None),
        ("Names: a worker's register is a registry", 900, None),
        ("Cache: a page has one owner", 201, "201 lines changed without a body"),
        ("Cache: a page has one owner\n\nSigned-off-by: Somebody With A Long Name <somebody@example.org> and more", 201,
         "201 lines changed without a body"),
        ("Cache: a page has one owner, and this subject says much more than anyone wants", 1, "78 characters"),
        ("Cache: a page has one owner\nand the blank line is missing, so all of it is the subject", 1, "characters"),
        ("Cache: a page has one owner; Worker: a step is counted", 1, "make two commits"),
        ("Fix stuff", 1, "must begin with an area"),
        ("Caches: a page has one owner", 1, "must begin with an area"),
        ("Cache: a page has one owner.", 1, "full stop"),
    ],
)
def test_one_commit(repository, message, lines, fault):
    repository.commit(message, lines)
    done = repository.check(repository.base)
    if fault is None:
        assert done.returncode == 0 and "1 commits checked" in done.stdout, done.stderr
    else:
        assert done.returncode == 1 and fault in done.stderr


def test_a_moved_file_counts_where_it_changed(repository):
    repository.git("mv", "file1", "elsewhere")
    repository.git("commit", "-q", "-m", "Rooms: the file is elsewhere")
    assert repository.check(repository.base).returncode == 0


def test_merges_are_not_checked(repository):
    repository.git("checkout", "-q", "-b", "side")
    repository.commit("Docs: a page")
    repository.git("checkout", "-q", "main")
    repository.commit("Tests: a test")
    repository.git("merge", "-q", "-m", "merged the side; with a bad subject", "side")
    done = repository.check(repository.base)
    assert done.returncode == 0 and "2 commits checked" in done.stdout, done.stderr


def test_the_default_base_is_origin_main(repository, tmp_path):
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", repository.path, clone], check=True)
    assert "0 commits checked since origin/main" in check(clone).stdout
    # Without it, and without the commit at which the rules began, every commit is checked.
    done = repository.check()
    assert done.returncode == 1 and "make two commits" in done.stderr


def test_a_shallow_clone_is_checked_as_far_as_it_goes(repository, tmp_path):
    repository.commit("Bad")
    repository.commit("Docs: a large file at the edge", 500)
    repository.commit("Docs: a page")
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", "--depth=2", f"file://{repository.path}", clone], check=True)
    subprocess.run(["git", "-C", clone, "remote", "remove", "origin"], check=True)
    done = check(clone)
    assert done.returncode == 0 and "1 commits checked" in done.stdout, done.stderr


def test_without_a_repository_there_is_nothing_to_check(tmp_path):
    done = check(tmp_path)
    assert done.returncode == 0 and "nothing to check" in done.stdout


def test_an_unknown_base_is_an_error(repository):
    assert repository.check("nowhere").returncode == 2
