from __future__ import annotations

from pathlib import Path

import pytest

from pytest_jsbench.core.cases import Case, CaseKey
from pytest_jsbench.core.errors import PromptError
from pytest_jsbench.prompts import find_template
from tests.packages import install

SOURCE = """
from pytest_jsbench import Message, Prompt

def text(case): return f"Answer {case.key.id}"
def mappings(case): return [{"role": "system", "content": "Rules"}, {"role": "user", "content": "?"}]
def messages(case): return (Message(role="user", content="?"),)
def prompt(case): return Prompt(messages=(Message(role="user", content="?"),))
def nothing(case): return None
def empty(case): return " "
def no_messages(case): return []
def no_role(case): return [{"content": "?"}]
def strange_role(case): return [{"role": "tool", "content": "?"}]
def parts(case): return [{"role": "user", "content": [{"type": "text"}]}]
def broken(case): raise ValueError("two\\nlines")
number = 7
"""
CASE = Case(key=CaseKey(task="orders", id="o1"), schema={})


@pytest.fixture(autouse=True)
def asking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "asking_mine", raising=False)
    (tmp_path / "asking_mine.py").write_text(SOURCE)
    return tmp_path / "asking_mine.py"


def asked(name: str) -> list[tuple[str, str]]:
    prompt = find_template(f"asking_mine:{name}").render(CASE)
    return [(message.role, message.content) for message in prompt.messages]


def test_a_function_returns_text_messages_or_a_prompt() -> None:
    assert asked("text") == [("user", "Answer o1")]
    assert asked("mappings") == [("system", "Rules"), ("user", "?")]
    assert asked("messages") == asked("prompt") == [("user", "?")]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("nothing", "nothing"),
        ("empty", "an empty text"),
        ("no_messages", "a list"),
    ],
)
def test_anything_else_is_refused_with_what_was_expected(name: str, found: str) -> None:
    with pytest.raises(PromptError, match=f"asking_mine:{name} gave {found} for orders::o1; expected text, a Prompt"):
        asked(name)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no_role", r"messages\[0\].role is None; expected one of system"),
        ("strange_role", r"messages\[0\].tool_call_id is a JSON null; expected text"),
        ("parts", r"messages\[0\].content\[0\].text is a JSON null; expected text"),
    ],
)
def test_messages_that_cannot_be_sent_are_refused_with_their_place(name: str, said: str) -> None:
    with pytest.raises(
        PromptError, match=f"asking_mine:{name} gave messages for orders::o1 that cannot be sent: {said}"
    ):
        asked(name)


def test_a_function_that_raises_is_one_line() -> None:
    with pytest.raises(PromptError, match=r"asking_mine:broken raised ValueError: two lines$"):
        asked("broken")


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("asking_mine:txt", r"has no 'txt': did you mean 'text'\?"),
        ("asking_mine:number", "is a int; expected a function that takes a case"),
        ("no_such_module_at_all:f", "cannot import no_such_module_at_all"),
    ],
)
def test_what_is_no_function_is_one_line(reference: str, message: str) -> None:
    with pytest.raises(PromptError, match=message):
        find_template(reference)


def test_its_digest_changes_with_its_module_and_its_name(asking: Path) -> None:
    text, prompt = (find_template(f"asking_mine:{name}").digest for name in ("text", "prompt"))
    asking.write_text(SOURCE + "\n# changed\n")

    assert text is not None
    assert len({text, prompt, find_template("asking_mine:text").digest}) == 3


def test_an_installed_package_brings_a_prompt_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = '[project]\nname = "asking"\nversion = "1.0"\n[project.entry-points."pytest_jsbench.prompts"]\n'
    points = 'polite = "asking_mine:text"\nseven = "asking_mine:number"\nschema = "asking_mine:text"\n'
    install(tmp_path / "site", {"pyproject.toml": project + points}, monkeypatch)

    template = find_template("polite")

    assert [message.content for message in template.render(CASE).messages] == ["Answer o1"]
    assert template.name == "polite"
    assert template.digest != find_template("asking_mine:text").digest
    assert find_template("schema").render(CASE).messages[0].content.startswith("You need to")
    with pytest.raises(PromptError, match="prompt seven is a int; expected a function that takes a case"):
        find_template("seven")
    with pytest.raises(PromptError, match=r"unknown prompt 'polit': did you mean 'polite'\?"):
        find_template("polit")
