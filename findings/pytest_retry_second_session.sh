#!/usr/bin/env bash
# pytest-retry: a second session of pytest in the same process.
#
# Guess: pytest.main can be called twice in one process, as pytester's runpytest_inprocess does, with any plugin installed.
# Packages: pytest==9.2.0 pytest-retry==1.7.0
# Versions: pytest 9.2.0, pytest-retry 1.7.0, Python 3.11; 2026-11-28
# Behaviour: the first session of the process passes. Every later session ends with an internal error (exit status 3) before it
#   collects a test, though nothing is retried and no option of the plugin is used: the plugin adds the exceptions of its hooks to
#   an object of the module, and asks the next session for a command line option of that name.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check pytest==9.2.0 pytest-retry==1.7.0
mkdir "$work/tests"
echo "def test_one(): pass" >"$work/tests/test_one.py"
cd "$work/tests"
"$work/venv/bin/python" - >"$work/output" <<'PROGRAM'
import contextlib
import io

import pytest

for session in ("first", "second", "third"):
    with contextlib.redirect_stdout(io.StringIO()) as output, contextlib.redirect_stderr(output):
        status = pytest.main(["-q", "-p", "no:cacheprovider"])
    lines = [line for line in output.getvalue().splitlines() if "ValueError" in line or "passed" in line]
    print(f"{session} session: exit status {int(status)}; {lines[-1].split(' in ')[0]}")
PROGRAM
cat "$work/output"
diff -u - "$work/output" <<'OUTPUT'
first session: exit status 0; 1 passed
second session: exit status 3; INTERNALERROR> ValueError: no option named 'filtered_exceptions'
third session: exit status 3; INTERNALERROR> ValueError: no option named 'filtered_exceptions'
OUTPUT
