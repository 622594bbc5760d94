#!/usr/bin/env bash
# xllamacpp: the grammar that json_schema_to_grammar returns.
#
# Guess: it returns the GBNF grammar that llama.cpp's function of that name returns.
# Packages: xllamacpp==2026.10.11549
# Versions: xllamacpp 2026.10.11549, Python 3.11, Linux x86_64; 2026-11-28
# Behaviour: it returns a grammar of llguidance with the schema inside, unchecked: an unknown type passes too. So it can
#   neither show nor check the GBNF grammar that llama.cpp's function of that name makes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check xllamacpp==2026.10.11549
"$work/venv/bin/python" - >"$work/output" <<'PROGRAM'
import xllamacpp

for schema in ({"type": "integer"}, {"type": "no such type"}):
    grammar = xllamacpp.json_schema_to_grammar(schema)
    text = grammar.decode() if isinstance(grammar, bytes) else grammar
    print(schema)
    print("".join(f"  {line}\n" for line in text.splitlines()), end="")
PROGRAM
cat "$work/output"
diff -u - "$work/output" <<'OUTPUT'
{'type': 'integer'}
  %llguidance {}
  start: %json {"type":"integer"}
{'type': 'no such type'}
  %llguidance {}
  start: %json {"type":"no such type"}
OUTPUT
