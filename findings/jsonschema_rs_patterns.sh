#!/usr/bin/env bash
# jsonschema-rs: in which syntax a pattern is read.
#
# Guess: `pattern` is ECMA-262, as JSON Schema recommends, or at least one syntax for all patterns.
# Packages: jsonschema-rs==0.61.0
# Versions: jsonschema-rs 0.61.0, Python 3.11, Linux x86_64; 2026-11-28
# Behaviour: constructs of Rust's regex crate that ECMA-262 does not have are compiled (inline flags, \A, \z, set
#   operations), constructs that ECMA-262 has are refused as no regex (\0, [^], a group named $, a quantified
#   look-ahead), and \s means two things: white space of ECMA-262 in a plain pattern, Rust's in one with look-around.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check jsonschema-rs==0.61.0
"$work/venv/bin/python" - >"$work/output" <<'PROGRAM'
from jsonschema_rs import Draft202012Validator, ValidationError

PAIRS = [
    ("(?i)a", "A"),
    (r"\Aa", "a"),
    (r"a\z", "a"),
    ("^[a&&b]$", "&"),
    (r"\0", "\0"),
    ("[^]", "x"),
    ("(?<$>a)", "a"),
    ("^(?=a)*$", ""),
    (r"^\s$", "\ufeff"),
    (r"^(?!x)\s$", "\ufeff"),
]
for pattern, text in PAIRS:
    try:
        outcome = "matches" if Draft202012Validator({"pattern": pattern}).is_valid(text) else "does not match"
    except ValidationError:
        outcome = "refused: not a regex"
    print(f"{pattern:12} {ascii(text):10} {outcome}")
PROGRAM
cat "$work/output"
diff -u - "$work/output" <<'OUTPUT'
(?i)a        'A'        matches
\Aa          'a'        matches
a\z          'a'        matches
^[a&&b]$     '&'        matches
\0           '\x00'     refused: not a regex
[^]          'x'        refused: not a regex
(?<$>a)      'a'        refused: not a regex
^(?=a)*$     ''         refused: not a regex
^\s$         '\ufeff'   matches
^(?!x)\s$    '\ufeff'   does not match
OUTPUT
