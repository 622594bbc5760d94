from __future__ import annotations

import hashlib
import random
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.core import guarded_calls
from pytest_jsbench.core.cases import Case, CaseKey, Template
from pytest_jsbench.core.errors import PromptError
from pytest_jsbench.prompts import files, find_template
from pytest_jsbench.prompts.named import PROMPTS
from tests.support.mutations import mutated, mutated_bytes, survive

SCHEMA = {
    "properties": {"a": {"type": "integer", "description": "How many"}, "b": {}},
    "required": ["a"],
    "title": "<b>{{ 7 * 7 }}</b> é",
}
CASE = Case(key=CaseKey(task="orders", id="o1"), schema=SCHEMA)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    pytest.importorskip("jinja2", reason="needs the extra prompts")
    return tmp_path / "mine.j2"


def template(path: Path, text: str) -> Template:
    path.write_text(text, encoding="utf-8")
    return find_template(str(path))


def rendered(path: Path, text: str, case: Case = CASE) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in template(path, text).render(case).messages]


def test_a_file_without_blocks_is_the_users_message(path: Path) -> None:
    text = (
        "{{ task }}/{{ id }}\n"
        "{% for field in fields %}\n"
        "- {{ field.name }}: {{ field.type }}{{ '!' if field.required }} {{ field.description }}\n"
        "{% endfor %}\n"
    )

    assert rendered(path, text) == [("user", "orders/o1\n- a: integer! How many\n- b: any")]


def test_a_schema_is_data_and_nothing_in_it_is_escaped_or_computed(path: Path) -> None:
    (compact,) = rendered(path, "{{ schema_json }}")
    (indented,) = rendered(path, "{{ schema | tojson(indent=1) }}")
    (title,) = rendered(path, "{{ schema.title }}")

    assert '"title": "<b>{{ 7 * 7 }}</b> \\u00e9"' in compact[1]
    assert indented[1].startswith('{\n "properties": {\n')
    assert title[1] == "<b>{{ 7 * 7 }}</b> é"


def test_blocks_are_messages(path: Path) -> None:
    text = (
        "{# mine #}\n{% block user %}\nAnswer {{ id }}.\n{% endblock %}\n\n{% block system %}\nRules.\n{% endblock %}\n"
    )

    assert rendered(path, text) == [("system", "Rules."), ("user", "Answer o1.")]


def test_empty_system_block_adds_no_message(path: Path) -> None:
    text = "{% block system %}{% if task == 'x' %}Rules{% endif %}{% endblock %}{% block user %}?{% endblock %}"

    assert rendered(path, text) == [("user", "?")]


def test_its_digest_is_the_files(path: Path) -> None:
    assert template(path, "é").digest == "sha256:" + hashlib.sha256("é".encode()).hexdigest()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{{ shema }}", r"unknown variable 'shema': did you mean 'schema'\?"),
        ("a\n{% for %}", r"mine\.j2, line 2: "),
        ("a\n{{ schema | nosuch }}", r"mine\.j2, line 2: No filter named 'nosuch'"),
        ("{% block usr %}{% endblock %}", r"line 1: unknown block 'usr': did you mean 'user'\?"),
        ("{% block system %}{% endblock %}", "a block system and no block user; expected both, or no block"),
        ("{% block user %}?{% endblock %}\n\nBye", r"text outside of the blocks is never sent"),
        ("{% set a = 1 %}{% block user %}?{% endblock %}", "outside of the blocks"),
    ],
)
def test_invalid_template_is_reported_before_any_call(path: Path, text: str, message: str) -> None:
    with pytest.raises(PromptError, match=message):
        template(path, text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{{ schema.nosuch }}", "UndefinedError: "),
        ("{{ 1 // 0 }}", "ZeroDivisionError"),
        ("{% if task == 'x' %}a{% endif %}", "renders an empty user message for orders::o1"),
        ("{{ ''.__class__.__mro__ }}", "SecurityError"),
        ("{% set _ = schema.update({'a': 1}) %}a", "SecurityError"),
        ("{% include 'other.j2' %}", "TypeError: no loader"),
        ("{{ range(10000000) | list }}", "OverflowError"),
    ],
)
def test_template_that_fails_on_a_case_is_reported_in_one_line(path: Path, text: str, message: str) -> None:
    made = template(path, text)

    with pytest.raises(PromptError, match=message):
        made.render(CASE)


@pytest.mark.parametrize(
    ("text", "seconds", "bound"),
    [
        ("{% for a in range(99999) %}{% for b in range(300) %}{% endfor %}{% endfor %}", 0.4, "within 0.4 s"),
        ("{{ 'a' | center(1100000000) }}", 60, "within 1024 MB of memory"),
        ("{% for a in range(20) %}{{ 'a' | center(1000000) }}{% endfor %}", 60, "within 16 MB of text"),
    ],
)
def test_a_template_without_end_is_given_up_in_one_line_that_names_it(
    path: Path, monkeypatch: pytest.MonkeyPatch, text: str, seconds: float, bound: str
) -> None:
    made = template(path, "{% if id == 'o1' %}" + text + "{% endif %}{{ id }}")

    with monkeypatch.context() as patched:
        patched.setattr(files, "SECONDS", seconds)
        with pytest.raises(PromptError) as error:
            made.render(CASE)
    message = f"prompt {path} cannot be rendered for orders::o1 {bound}; simplify the template"
    assert str(error.value) == message
    assert made.render(Case(key=CaseKey(task="orders", id="o2"), schema=SCHEMA)).messages[0].content == "o2"


def test_template_that_never_finishes_compiling_is_aborted(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    template(path, "a")
    monkeypatch.setattr(files, "SECONDS", 0.4)

    with pytest.raises(PromptError, match=r"mine\.j2 cannot be read within 0\.4 s; simplify the template"):
        template(path, "{{ 9 ** (9 ** 7) }}")


def test_twenty_thousand_required_fields_are_shown_in_no_time() -> None:
    names = [f"field {number}" for number in range(20_000)]
    case = Case(key=CASE.key, schema={"properties": {name: {} for name in names}, "required": names})
    started = time.perf_counter()

    assert PROMPTS["fields"].render(case).messages[1].content.count("[REQUIRED]") == len(names)
    assert time.perf_counter() - started < 5


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "bytes.j2").write_bytes(b"\xff\xfe")

    with pytest.raises(PromptError, match=r"no prompt file '.*nowhere\.j2'; expected a Jinja2 template"):
        find_template(str(tmp_path / "nowhere.j2"))
    with pytest.raises(PromptError, match=r"bytes\.j2: cannot be read: not UTF-8; expected a Jinja2"):
        find_template(str(tmp_path / "bytes.j2"))


def test_missing_jinja2_is_one_line_with_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)

    with pytest.raises(PromptError, match=r"needs the package jinja2: pip install 'pytest-jsbench\[prompts\]'"):
        template(tmp_path / "mine.j2", "a")


@pytest.mark.parametrize("schema", [True, {"properties": 3}, {"properties": {"a": True}, "required": [{}, 1]}])
def test_fields_are_there_for_any_schema(path: Path, schema: Any) -> None:
    case = Case(key=CASE.key, schema=schema)

    assert rendered(path, "{{ fields | length }}!", case)[0][1] in {"0!", "1!"}


def test_file_that_links_outside_is_not_called(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("a key")
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "ask.j2").symlink_to(tmp_path / "secret")
    with pytest.raises(PromptError, match=r"ask\.j2: leads out of .*prompts; expected a Jinja2 template"):
        files.open_template(str(tmp_path / "prompts" / "ask.j2"))


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
                "9", chance.choice(["99999", "9999", "(9 ** 7)"]), chance.randrange(1, 4)
            )
        path.write_bytes(mutated_bytes(text.encode(), chance) if chance.randrange(3) else text.encode())
        case = Case(key=CaseKey(task="t", id="i"), schema=mutated(SCHEMA, chance) if chance.randrange(4) else SCHEMA)
        find_template(str(path)).render(case)

    survived = survive("template", attempt)
    assert not survived.broken, str(survived)
    assert survived.slowest[0] < 30, str(survived)
    assert survived.grown < 1 << 30, str(survived)
    assert guarded_calls.guarded_calls().call("tests.support.child_functions:peak", seconds=10) < 1 << 30
