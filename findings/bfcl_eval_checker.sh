#!/usr/bin/env bash
# bfcl-eval: which calls the checker of the Berkeley Function Calling Leaderboard accepts.
#
# Guess: a call that the checker accepts conforms to the schema of its function, each question has an acceptable call that
#   conforms, and a number counts by its value.
# Packages: bfcl-eval==2026.3.23
# Versions: bfcl-eval 2026.3.23, Python 3.11; 2026-11-29
# Behaviour: (1) `enum` is not checked: another case of a value is accepted, as texts are compared without case and punctuation.
#   (2) Six questions expect a text that is not in the parameter's `enum`, so that a server which enforces schemas cannot answer
#   them as expected. (3) 10.0 is rejected for an integer, which JSON Schema accepts; 5 is accepted for a float.
#   (4) null is accepted for a text if it is the first acceptable value, although the schema says "string".
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps bfcl-eval==2026.3.23
"$work/venv/bin/python" - >"$work/output" <<'PROGRAM'
import json
import sys
import types
from pathlib import Path

import bfcl_eval

# the list of models imports the SDK of each provider; the checker only reads one property of the model
models = types.ModuleType("bfcl_eval.constants.model_config")
models.MODEL_CONFIG_MAPPING = {"m": types.SimpleNamespace(underscore_to_dot=True)}
sys.modules[models.__name__] = models
from bfcl_eval.constants.enums import Language
from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker, standardize_string

data = Path(bfcl_eval.__file__).parent / "data"


def read(path):
    return {row["id"]: row for row in map(json.loads, filter(None, path.read_text().split("\n")))}


def accepts(category, name, **changes):
    question, answer = (read(data / folder / f"BFCL_v4_{category}.json")[name] for folder in (".", "possible_answer"))
    ((function, values),) = answer["ground_truth"][0].items()
    given = {argument: next(value for value in each if value != "") for argument, each in values.items()} | changes
    calls = [{function.replace(".", "_"): given}]
    checked = ast_checker(question["function"], calls, answer["ground_truth"], Language.PYTHON, category, "m")
    return checked["valid"]


ride = ("live_multiple", "live_multiple_2-1-0")
print("(1) type is 'plus':", accepts(*ride), "- 'PL-US.', which is not in the enum:", accepts(*ride, type="PL-US."))
outside = []
for path in sorted((data / "possible_answer").glob("BFCL_v4_live_*.json")):
    questions = read(data / path.name)
    for name, answer in read(path).items():
        functions = {each["name"]: each["parameters"]["properties"] for each in questions[name]["function"]}
        for call in answer["ground_truth"]:
            ((function, values),) = call.items()
            for argument, each in values.items():
                enum = functions[function].get(argument, {}).get("enum")
                known = {standardize_string(value) for value in enum or () if isinstance(value, str)}
                texts = all(isinstance(value, str) for value in each)
                if enum and texts and "" not in each and known.isdisjoint(map(standardize_string, each)):
                    outside.append(f"{name} {argument}={each}")
print("(2) questions with an acceptable value outside of the enum only:", len(outside))
print(*outside[:3], sep="\n")
print("(3) time is 10:", accepts(*ride, time=10), "- 10.0:", accepts(*ride, time=10.0))
search = ("live_multiple", "live_multiple_23-5-0")
print("    price_min is 0.0:", accepts(*search), "- 0:", accepts(*search, price_min=0))
print("(4) brand, a string, is null:", accepts(*search, brand=None))
PROGRAM
cat "$work/output"
diff -u - "$work/output" <<'OUTPUT'
(1) type is 'plus': True - 'PL-US.', which is not in the enum: True
(2) questions with an acceptable value outside of the enum only: 6
live_multiple_87-38-4 type=['openai']
live_multiple_750-169-5 genre=['Any']
live_multiple_835-178-10 genre=['Reggaeton']
(3) time is 10: True - 10.0: False
    price_min is 0.0: True - 0: True
(4) brand, a string, is null: True
OUTPUT
