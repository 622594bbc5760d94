"""Secrets kept out of what is written: known texts, found in every form in which a server may quote them."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pytest_jsbench.core.text import LONGEST, sentence

#: characters of the shortest secret that is looked for in answers; a shorter one protects nothing, and is a word
SHORTEST = 8
REDACTED = "[key]"

#: what looks like a provider's key, whole or half masked as providers quote it (`sk-abc***xyz`)
_KEY_LIKE = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai|hf|nvapi|r8|pplx)[-_][\w*•.…-]{5,}[\w*•…-]|\bAIza[\w*-]{10,}|(?i:\bbearer\s+)[\w.~+/=*-]{5,}[\w~+/=*-]"
)
#: characters of a cut secret's beginning that are too many to show
_BEGINNING = 6
_ESCAPE = (
    r'\\+u[0-9A-Fa-f]{4}|\\+["/]|\\{2,}|%(?:25)*[0-9A-Fa-f]{2}|&(?:#\d{1,7}|#[xX][0-9A-Fa-f]{1,6}|amp|lt|gt|quot|apos);'
)
#: one character as JSON (also inside JSON), a URL or HTML may write it; and any character, written so or not
_ESCAPED, _WRITTEN = re.compile(_ESCAPE), re.compile(rf"{_ESCAPE}|.", re.DOTALL)


class Secrets:
    """The texts that a run knows and nobody is to read; it has none that can be printed."""

    __slots__ = ("_forms", "_in_messages", "_long")

    def __init__(self, texts: Iterable[str] = (), *, told: Iterable[str] = ()) -> None:
        """Texts are replaced wherever they stand if they are long enough; `told` are, in messages, of any length."""
        stripped = {text.strip() for text in texts}
        self._long = tuple(sorted(text for text in stripped if len(text) >= SHORTEST))
        forms = {form for text in self._long for form in (text, *_encoded(text))}
        self._forms = sorted(forms, key=len, reverse=True)
        words = [rf"(?<!\w){re.escape(text)}(?!\w)" for text in stripped if _BEGINNING <= len(text) < SHORTEST]
        shown = [*words, *(re.escape(text) for text in sorted(told, key=len, reverse=True) if text)]
        self._in_messages = re.compile("|".join(shown)) if shown else None

    def out_of_answer(self, text: str) -> str:
        """The text with each character of a secret as `*` (of one that is a number as `1`): JSON stays JSON."""
        return self._replaced(text, lambda secret: ("1" if secret[0].isdecimal() else "*") * len(secret[0]))

    def out_of_message(self, text: str) -> str:
        """The text with `[key]` in the place of each secret, also of one that was cut off at the end of the text."""
        if self._in_messages is not None:
            text = self._in_messages.sub(REDACTED, text)
        text = self._replaced(text, lambda _: REDACTED)
        end = text.rstrip("….")
        if end == text:
            return text
        for secret in self._long:
            for length in range(len(secret) - 1, _BEGINNING - 1, -1):
                if end.endswith(secret[:length]):
                    return f"{end[:-length]}{REDACTED}{text[len(end) :]}"
        return text

    def out_of(self, value: Any) -> Any:
        """JSON values with no secret in any of their texts and names."""
        match value:
            case str():
                return self.out_of_message(value)
            case Mapping():
                return {self.out_of(name): self.out_of(each) for name, each in value.items()}
            case list() | tuple():
                return [self.out_of(each) for each in value]
            case _:
                return value

    def _replaced(self, text: str, by: Callable[[re.Match[str]], str]) -> str:
        if secrets := self._in(text):
            text = secrets.sub(by, text)
        plain = _ESCAPED.sub(_character, text) if self._forms and any(sign in text for sign in "\\%&") else ""
        if secrets := self._in(plain):
            written = _WRITTEN.findall(text)
            for secret in reversed(list(secrets.finditer(plain))):
                written[slice(*secret.span())] = [by(secret)]
            text = "".join(written)
        return text

    def _in(self, text: str) -> re.Pattern[str] | None:
        """The forms of secrets that stand in the text; None for nearly every text, which so takes little time."""
        present = [re.escape(form) for form in self._forms if form in text]
        return re.compile("|".join(present)) if present else None


def _encoded(text: str) -> Iterable[str]:
    """The part of the text's Base64 that stands in that of any longer text, by where it begins there."""
    data = text.encode("utf-8", "surrogatepass")
    for before in range(3):
        code = base64.b64encode(bytes(before) + data)
        # a character of the code holds bits of neighbouring bytes where it is not wholly of the text's own
        own = code[(0, 2, 3)[before] : (before + len(data)) * 8 // 6].decode()
        if len(own) >= SHORTEST:
            yield from (own, own.translate(str.maketrans("+/", "-_")))


def _character(escape: re.Match[str]) -> str:
    written = escape[0]
    if written.startswith("&"):
        return html.unescape(written) or " "
    if written.startswith("%"):
        return chr(int(written[-2:], 16))
    code = written.lstrip("\\")
    return chr(int(code[1:], 16)) if code.startswith("u") else code or "\\"


def one_line(text: str, *, secret: str | None = None) -> str:
    """The text on one line of at most 300 characters; the secret, and whatever looks like a key, replaced."""
    if secret:
        text = Secrets([secret]).out_of_message(text)
    return sentence(key_like_hidden(text[: 100 * LONGEST], REDACTED))


def key_like_hidden(text: str, by: str) -> str:
    """The text with another in the place of whatever looks like a provider's key."""
    return _KEY_LIKE.sub(by, text)
