from __future__ import annotations

import random
from pathlib import Path

import pytest

from pytest_jsbench.core import guarded_calls
from pytest_jsbench.core.cases import Case, CaseKey
from pytest_jsbench.core.errors import PromptError
from pytest_jsbench.prompts import files, find_template
from tests.mutations import mutated, mutated_bytes, survive

SCHEMA = {"properties": {"a": {"type": "integer", "description": "How many"}, "b": {}}, "required": ["a"], "title": "t"}
TEMPLATES = (
    "{{ task }}/{{ id }}\n{% for field in fields %}- {{ field.name }}: {{ field.type }}{% endfor %} {{ schema_json }}",
    "{% block system %}Rules.{% endblock %}\n{% block user %}{{ schema | tojson(indent=2) }}{% endblock %}",
    "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{% endif %}{{ n }}{% endmacro %}{{ m(9) }}",
    "{% for a in range(99) %}{% for b in range(99) %}{{ a * b }}{% endfor %}{% endfor %}",
    "{{ 'a' | center(99) }}{{ '%9d' | format(7) }}{{ 'ab' * 9 }}{{ 9 ** 9 }}{{ id | replace('', 'x') | wordwrap(1) }}",
    "{% set ns = namespace(t='a') %}{% for a in range(9) %}{% set ns.t = ns.t ~ ns.t %}{% endfor %}{{ ns.t }}",
)


def test_no_mutation_of_a_template_breaks_or_outlasts_its_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("jinja2", reason="needs the extra prompts")
    monkeypatch.setattr(files, "SECONDS", 2)
    path = tmp_path / "mine.j2"

    def attempt(chance: random.Random) -> None:
        text = chance.choice(TEMPLATES)
        for _ in range(chance.randrange(3)):
            text = text.replace("99", "9").replace(
                "9", chance.choice(["99999", "9999", "9999999999", "(9 ** 9)"]), chance.randrange(1, 4)
            )
        path.write_bytes(mutated_bytes(text.encode(), chance) if chance.randrange(3) else text.encode())
        case = Case(key=CaseKey(task="t", id="i"), schema=mutated(SCHEMA, chance) if chance.randrange(4) else SCHEMA)
        find_template(str(path)).render(case)

    survived = survive("template", attempt)
    assert not survived.broken, str(survived)
    assert survived.slowest[0] < 30, str(survived)
    assert survived.grown < 1 << 30, str(survived)
    assert guarded_calls.guarded_calls().call("tests.core.working:peak", seconds=10) < 1 << 30


def test_a_template_that_is_given_up_leaves_the_next_one_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jinja2", reason="needs the extra prompts")
    path = tmp_path / "mine.j2"
    path.write_text("{% if id == 'bad' %}{{ 'a' | center(3000000000) }}{% endif %}{{ id }}")
    template = find_template(str(path))
    with pytest.raises(PromptError, match="within 1024 MB of memory"):
        template.render(Case(key=CaseKey(task="t", id="bad"), schema=SCHEMA))
    assert template.render(Case(key=CaseKey(task="t", id="good"), schema=SCHEMA)).messages[0].content == "good"
