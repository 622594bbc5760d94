#!/usr/bin/env bash
# jsonschema: numbers with a fraction.
#
# Guess: 4.35 is a multiple of 0.01; Decimals, which the standard library's json can read, avoid the rounding; a very
#   large integer is checked too.
# Packages: jsonschema==4.26.0
# Versions: jsonschema 4.26.0, Python 3.11; 2026-11-28
# Behaviour: 1,363 of the 10,000 prices from 0.01 to 100.00 are no multiple of 0.01; Decimal(1) is not an integer; an
#   integer of 400 digits raises OverflowError where multipleOf has a fraction.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check jsonschema==4.26.0
"$work/venv/bin/python" - >"$work/output" <<'PROGRAM'
import json
from decimal import Decimal

from jsonschema import Draft202012Validator

cents = Draft202012Validator({"multipleOf": 0.01})
print("prices that are no multiple of 0.01:", sum(not cents.is_valid(price / 100) for price in range(1, 10_001)))
print("4.35:", cents.is_valid(4.35))
print("Decimal(1) is an integer:", Draft202012Validator({"type": "integer"}).is_valid(json.loads("1.0", parse_float=Decimal)))
try:
    print("400 digits:", cents.is_valid(10**399))
except OverflowError as error:
    print("400 digits: OverflowError:", error)
PROGRAM
cat "$work/output"
diff -u - "$work/output" <<'OUTPUT'
prices that are no multiple of 0.01: 1363
4.35: False
Decimal(1) is an integer: False
400 digits: OverflowError: int too large to convert to float
OUTPUT
