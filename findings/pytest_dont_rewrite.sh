#!/usr/bin/env bash
# pytest: a plugin's module whose docstring says PYTEST_DONT_REWRITE.
#
# Guess: the docstring leaves the module to Python's import: to its loader, and to the bytecode that pip compiled at the
#   installation.
# Packages: pytest==9.2.0 setuptools==80.9.0
# Versions: pytest 9.2.0, Python 3.11; 2026-11-29
# Behaviour: only the assertions stay as they are. The module is still loaded by pytest's own loader, which does not use the
#   bytecode of the installation: it compiles the source once more, writes a file of its own, and reads and checks the source in each
#   later session. A package that only wants to start fast gains nothing.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check pytest==9.2.0 setuptools==80.9.0
mkdir -p "$work/package/sample"
cat >"$work/package/setup.py" <<'PROGRAM'
from setuptools import setup

setup(name="sample", version="1", packages=["sample"], entry_points={"pytest11": ["sample = sample.plugin"]})
PROGRAM
echo >"$work/package/sample/__init__.py"
printf '"""PYTEST_DONT_REWRITE"""\n' >"$work/package/sample/marked.py"
cat >"$work/package/sample/plugin.py" <<'PROGRAM'
def pytest_configure(config):
    import pathlib
    import sample.marked as module

    folder = pathlib.Path(module.__file__).parent / "__pycache__"
    files = sorted(file.name for file in folder.glob("marked.*"))
    print("loader:", type(module.__loader__).__name__)
    print("bytecode:", ", ".join(files))
PROGRAM
"$work/venv/bin/pip" install --quiet --disable-pip-version-check --no-build-isolation "$work/package"
mkdir "$work/tests"
echo "def test_one(): pass" >"$work/tests/test_one.py"
cd "$work/tests"
"$work/venv/bin/python" -m pytest -q -s -p no:cacheprovider | grep -E '^(loader|bytecode)' >"$work/output"
cat "$work/output"
diff -u - "$work/output" <<'OUTPUT'
loader: AssertionRewritingHook
bytecode: marked.cpython-311-pytest-9.2.0.pyc, marked.cpython-311.pyc
OUTPUT
