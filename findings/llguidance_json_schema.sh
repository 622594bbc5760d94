#!/usr/bin/env bash
# llguidance: which JSON texts the grammar of a schema accepts.
#
# Guess: the grammar of {"const": n} accepts n; a property may be spelled with escapes but stays that property; JSON may
#   write a string with escapes and members in any order.
# Packages: llguidance==1.9.1
# Versions: llguidance 1.9.1, Python 3.11, Linux x86_64; 2026-11-28
# Behaviour: integers above 2^53 in const and enum are rounded to doubles, so that the only accepted text is a wrong
#   one; an additional property whose escaped spelling equals a declared name is accepted with any type, and a JSON parser
#   then reads the wrong value; strings with a \u escape are rejected, and so is 1.0 for an integer.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check llguidance==1.9.1
"$work/venv/bin/python" - >"$work/output" <<'PROGRAM'
import json

from llguidance import LLMatcher, LLTokenizer

TOKENIZER = LLTokenizer("byte")


def accepts(schema: object, text: str) -> bool:
    matcher = LLMatcher(TOKENIZER, LLMatcher.grammar_from_json_schema(json.dumps(schema)), log_level=0)
    tokens = TOKENIZER.tokenize_str(text)
    return matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting()


number = 2**53 + 1
for text in (number, number - 1):
    print(f"const {number}: {text} {'accepted' if accepts({'const': number}, str(text)) else 'rejected'}")
    print(f"enum [{number}]: {text} {'accepted' if accepts({'enum': [number]}, str(text)) else 'rejected'}")

age = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}
for text in ('{"age": 1}', '{"age": "old"}', r'{"age": 1, "\u0061ge": "old"}'):
    accepted = accepts(age, text)
    print(f"{text:32} {'accepted' if accepted else 'rejected'}; a JSON parser reads {json.loads(text)}")

for schema, text in (
    ({"const": "\u00e9"}, r'"\u00e9"'),
    ({"enum": ["a/b"]}, r'"a\/b"'),
    ({"type": "integer"}, "1.0"),
):
    print(f"{json.dumps(schema):22} {text:10} {'accepted' if accepts(schema, text) else 'rejected'}")
PROGRAM
cat "$work/output"
diff -u - "$work/output" <<'OUTPUT'
const 9007199254740993: 9007199254740993 rejected
enum [9007199254740993]: 9007199254740993 rejected
const 9007199254740993: 9007199254740992 accepted
enum [9007199254740993]: 9007199254740992 accepted
{"age": 1}                       accepted; a JSON parser reads {'age': 1}
{"age": "old"}                   rejected; a JSON parser reads {'age': 'old'}
{"age": 1, "\u0061ge": "old"}    accepted; a JSON parser reads {'age': 'old'}
{"const": "\u00e9"}    "\u00e9"   rejected
{"enum": ["a/b"]}      "a\/b"     rejected
{"type": "integer"}    1.0        rejected
OUTPUT
