from __future__ import annotations

from typing import Any

import pytest

from pytest_jsbench.core.errors import DatasetError
from pytest_jsbench.core.files import Unreadable
from pytest_jsbench.datasets.yaml_text import DEEPEST, parse_yaml, require_yaml

pytest.importorskip("yaml", reason="needs the extra yaml")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("type: object\nrequired: [a, 'b']\n", {"type": "object", "required": ["a", "b"]}),
        ("no: yes", {"no": "yes"}),
        ("200: {n: 012, t: 12:30, d: 2020-01-01}", {"200": {"n": 12, "t": "12:30", "d": "2020-01-01"}}),
        ("[1, -2, 1.5, 1e3, .5, true, FALSE, null, ~, '', ]", [1, -2, 1.5, 1000.0, 0.5, True, False, None, None, ""]),
        ("['1', \"true\", !!str 1, ! 1]", ["1", "true", "1", "1"]),
        ("a:\n  - |\n    x\n", {"a": ["x\n"]}),
        ("a: &x {b: 1}\nc: *x", {"a": {"b": 1}, "c": {"b": 1}}),
        ('{"a": "\\u00e9\\n"}', {"a": "é\n"}),
        ("--- true\n...\n", True),
        ("a:", {"a": None}),
    ],
)
def test_yaml_is_read_as_json_would_be(text: str, value: Any) -> None:
    parsed = parse_yaml(text)

    assert parsed == value
    assert repr(parsed) == repr(value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\nb: 2\na: 3", "line 3: a mapping has the key 'a' twice"),
        (
            "a: !!python/object/apply:os.system ['x']",
            "line 1: the tag tag:yaml.org,2002:python/object/apply:os.system has no JSON equivalent",
        ),
        ("a: !secret x", "line 1: the tag !secret has no JSON equivalent"),
        ("a: !!binary aGk=", "the tag tag:yaml.org,2002:binary has no JSON equivalent"),
        ("? [1]\n: 2", "line 1: a key that is not text"),
        ("a: &x [*x]", "line 1: the alias *x is used before, or inside of, its anchor"),
        ("<<: {a: 1}", "line 1: the merge key << has no JSON equivalent"),
        ("a\n---\nb", "a second document begins"),
        ("", "an empty file"),
        ("a: [", "not YAML: "),
        ("a: 'x\x00'", "not YAML: "),
        ("[" * (DEEPEST + 1), "nest"),
        ("- " * (DEEPEST + 1), f"line 1: nested more than {DEEPEST} levels deep"),
        (
            "\n".join(["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30))]),
            "line 7: more than 2,000,000 values, with aliases expanded",
        ),
    ],
)
def test_yaml_without_json_equivalent_is_rejected_with_its_line(text: str, problem: str) -> None:
    with pytest.raises(Unreadable) as caught:
        parse_yaml(text)

    assert problem in caught.value.problem


def test_missing_package_is_one_line_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    with pytest.raises(DatasetError, match=r"dataset 'a.yaml' is YAML .*: pip install 'pytest-jsbench\[yaml\]'$"):
        require_yaml("dataset 'a.yaml'")
