"""The clients that people have get from folio-gateway what they expect: their own tests run in their own environments."""

import os

import pytest
from installed import HERE, run

HOUSE = {"TQDM_DISABLE": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def around(servers):
    """The variables of the tests of a client: nothing leads it to another server than ours."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "PYTEST_"))}
    return {**ours, **HOUSE, **servers}


def passes(python, servers, name):
    """The file's tests pass, in a pytest of that environment, which knows nothing of this one."""
    folder = HERE / "python"
    said = run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={folder}", f"--confcutdir={folder}",
               folder / name, cwd=folder, env=around(servers))  # fmt: skip
    assert " passed" in said and "skipped" not in said, said


@pytest.mark.parametrize("name", sorted(path.name for path in (HERE / "python").glob("openai_*.py")))
def test_openai(python, servers, name):
    passes(python, servers, name)


def test_langchain(python, servers):
    passes(python, servers, "langchain_model.py")


def test_llama_index(llama_index, servers):
    passes(llama_index, servers, "llama_index_model.py")


def test_javascript(node_js, node_modules, servers, tmp_path):
    # Packages are looked for beside the file that imports them, and the repository holds none.
    (tmp_path / "node_modules").symlink_to(node_modules)
    (tmp_path / "openai.test.mjs").write_bytes((HERE / "npm/openai.test.mjs").read_bytes())
    said = run(node_js, "--test", "--test-reporter=tap", "openai.test.mjs", cwd=tmp_path, env=around(servers))
    assert "\n# fail 0\n" in said and "\n# skipped 0\n" in said and "\n# pass 0\n" not in said, said
