#!/usr/bin/env bash
# pytester and NumPy: a test that runs pytest in the same process.
#
# Guess: if a test runs pytest in its own process with pytester, and the inner test imports NumPy, the outer test can import NumPy
#   afterwards: a module that was imported once is found in sys.modules, or is loaded again.
# Packages: pytest==9.2.0 numpy==2.4.6
# Versions: pytest 9.2.0, NumPy 2.4.6, Python 3.11; 2026-11-29
# Behaviour: the inner test passes. pytester then restores sys.modules, so that NumPy would be loaded a second time, which its
#   extension module refuses: every later import of NumPy in this process raises ImportError. It does not happen if NumPy was
#   imported before the inner run, or if the inner run is a process of its own.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check pytest==9.2.0 numpy==2.4.6
mkdir "$work/tests"
echo 'pytest_plugins = ["pytester"]' >"$work/tests/conftest.py"
cat >"$work/tests/test_outer.py" <<'PROGRAM'
import importlib

import pytest


@pytest.mark.parametrize("way", ["in a process of its own", "in the same process", "in the same process, NumPy imported before"])
def test_outer(pytester, way):
    if way.endswith("before"):
        importlib.import_module("numpy")
    pytester.makepyfile(test_inner="import numpy\n\ndef test_inner():\n    assert numpy.zeros(2).sum() == 0\n")
    run = pytester.runpytest_subprocess if "own" in way else pytester.runpytest_inprocess
    inner = run("-q").parseoutcomes()
    try:
        later = f"imported, sum {importlib.import_module('numpy').ones(2).sum():.0f}"
    except ImportError as error:
        later = str(error).splitlines()[0]
    print(f"inner run {way}: {inner}; NumPy afterwards: {later}")
PROGRAM
cd "$work/tests"
: >"$work/output"
for number in 0 1 2; do # each in a new process
    "$work/venv/bin/python" -m pytest -q -s -p no:cacheprovider --collect-only | sed -n "$((number + 1))p" >"$work/test"
    "$work/venv/bin/python" -m pytest -q -s -p no:cacheprovider "$(cat "$work/test")" | grep '^inner run' >>"$work/output"
done
cat "$work/output"
diff -u - "$work/output" <<'OUTPUT'
inner run in a process of its own: {'passed': 1}; NumPy afterwards: imported, sum 2
inner run in the same process: {'passed': 1}; NumPy afterwards: cannot load module more than once per process
inner run in the same process, NumPy imported before: {'passed': 1}; NumPy afterwards: imported, sum 2
OUTPUT
