#!/usr/bin/env bash
# jsonschema: patterns, alone and several together.
#
# Guess: `pattern` is ECMA-262 where Python's re can say it; patternProperties are tried one by one.
# Packages: jsonschema==4.26.0
# Versions: jsonschema 4.26.0, Python 3.11; 2026-11-28
# Behaviour: Python's re decides: \d matches digits of all scripts, $ matches before a final line feed, and \p or a named
#   group in ECMA-262's form raises re.error while validating. For additionalProperties all names of patternProperties
#   are joined to one pattern, so that \1 in the second refers to a group of the first, and a property is "additional"
#   or not by what stands in another pattern.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check jsonschema==4.26.0
"$work/venv/bin/python" - >"$work/output" <<'PROGRAM'
import re

from jsonschema import Draft202012Validator

for pattern, text in ((r"^\d$", "\u0663"), ("^a$", "a\n"), (r"^\p{Lu}$", "A"), ("^(?<y>a)$", "a")):
    try:
        print(f"{pattern:10} {ascii(text):10}", Draft202012Validator({"pattern": pattern}).is_valid(text))
    except re.error as error:
        print(f"{pattern:10} {ascii(text):10} re.error: {error}")

for names in ([r"^(b)\1$"], ["^(a)x$", r"^(b)\1$"]):
    schema = {"patternProperties": dict.fromkeys(names, True), "additionalProperties": False}
    print(f"'bb' is named by one of {names}:", Draft202012Validator(schema).is_valid({"bb": 1}))
PROGRAM
cat "$work/output"
diff -u - "$work/output" <<'OUTPUT'
^\d$       '\u0663'   True
^a$        'a\n'      True
^\p{Lu}$   'A'        re.error: bad escape \p at position 1
^(?<y>a)$  'a'        re.error: unknown extension ?<y at position 2
'bb' is named by one of ['^(b)\\1$']: True
'bb' is named by one of ['^(a)x$', '^(b)\\1$']: False
OUTPUT
