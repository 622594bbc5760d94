#!/usr/bin/env bash
# outlines-core: the regular expression of a schema.
#
# Guess: what build_regex_from_schema cannot express it refuses, as it does for `not`.
# Packages: outlines-core==0.2.14
# Versions: outlines-core 0.2.14, Python 3.11, Linux x86_64; 2026-11-28
# Behaviour: silently, a pattern is dropped next to maxLength; minimum and maximum of numbers are dropped; items after
#   prefixItems cannot be generated; a pattern without anchors has to match the whole string; quotes in a pattern end the
#   string, so that the output is not JSON.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check outlines-core==0.2.14
"$work/venv/bin/python" - >"$work/output" <<'PROGRAM'
import json
import re

from outlines_core.json_schema import build_regex_from_schema

#: schema, and a text with whether it conforms to the schema (None: it is not JSON)
PAIRS = [
    ({"type": "string", "pattern": "^ab$"}, '"xy"', False),
    ({"type": "string", "pattern": "^ab$", "maxLength": 5}, '"xy"', False),
    ({"type": "integer", "minimum": 5}, "-7", False),
    ({"type": "array", "prefixItems": [{"type": "integer"}], "items": {"type": "string"}}, '[1, "a"]', True),
    ({"type": "string", "pattern": '^"a"$'}, '""a""', None),
    ({"type": "string", "pattern": '^"a"$'}, r'"\"a\""', True),
    ({"type": "string", "pattern": "ab"}, '"xaby"', True),
]
for schema, text, conforms in PAIRS:
    accepted = re.fullmatch(build_regex_from_schema(json.dumps(schema)), text) is not None
    truth = {True: "conforms", False: "does not conform", None: "is not JSON"}[conforms]
    print(f"{json.dumps(schema)}\n  {text} {truth}: {'accepted' if accepted else 'rejected'}")
try:
    build_regex_from_schema(json.dumps({"not": {"type": "string"}}))
except ValueError as error:
    print("not:", str(error).splitlines()[0])
PROGRAM
cat "$work/output"
diff -u - "$work/output" <<'OUTPUT'
{"type": "string", "pattern": "^ab$"}
  "xy" does not conform: rejected
{"type": "string", "pattern": "^ab$", "maxLength": 5}
  "xy" does not conform: accepted
{"type": "integer", "minimum": 5}
  -7 does not conform: accepted
{"type": "array", "prefixItems": [{"type": "integer"}], "items": {"type": "string"}}
  [1, "a"] conforms: rejected
{"type": "string", "pattern": "^\"a\"$"}
  ""a"" is not JSON: accepted
{"type": "string", "pattern": "^\"a\"$"}
  "\"a\"" conforms: rejected
{"type": "string", "pattern": "ab"}
  "xaby" conforms: rejected
not: Unsupported JSON Schema structure {"not":{"type":"string"}} 
OUTPUT
