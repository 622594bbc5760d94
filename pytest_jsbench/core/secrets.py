"""Secrets kept out of what is written: known texts, found in every form in which a server may quote them."""

from __future__ import annotations

import base64
import bisect
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
#: one character, as JSON (also inside JSON), a URL or HTML may write it
_WRITTEN = re.compile(
    r'\\+u[0-9A-Fa-f]{4}|\\+["/]|\\{2,}|%(?:25)*[0-9A-Fa-f]{2}|&(?:#\d{1,7}|#[xX][0-9A-Fa-f]{1,6}|amp|lt|gt|quot|apos);'
)


class Secrets:
    """What a run knows and nobody is to read; it has no texts that can be printed."""

    __slots__ = ("_forms", "_in_messages", "_long")

    def __init__(self, texts: Iterable[str] = (), *, told: Iterable[str] = ()) -> None:
        """Texts are replaced wherever they stand if they are long enough; `told` are, in messages, of any length."""
        known = {text.strip() for text in texts}
        self._long = tuple(sorted(text for text in known if len(text) >= SHORTEST))
        self._forms = frozenset(form for text in self._long for form in (text, *_encoded(text)))
        words = [rf"(?<!\w){re.escape(text)}(?!\w)" for text in known if _BEGINNING <= len(text) < SHORTEST]
        shown = [*words, *(re.escape(text) for text in sorted(told, key=len, reverse=True) if text)]
        self._in_messages = re.compile("|".join(shown)) if shown else None

    def out_of_answer(self, text: str) -> str:
        """The text with each character of a secret as `*` (of one that is a number as `1`): JSON stays JSON."""
        return _replaced(text, self._forms, lambda secret: ("1" if secret.isdecimal() else "*") * len(secret))

    def out_of_message(self, text: str) -> str:
        """The text with `[key]` in the place of each secret, also of one that was cut off at the end of the text."""
        if self._in_messages is not None:
            text = self._in_messages.sub(REDACTED, text)
        text = _replaced(text, self._forms, lambda _: REDACTED)
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


def _encoded(text: str) -> Iterable[str]:
    """What of the text stands in the Base64 of any longer text that holds it, by where it begins there."""
    data = text.encode("utf-8", "surrogatepass")
    for before in range(3):
        code = base64.b64encode(bytes(before) + data)
        # a character of the code holds bits of neighbouring bytes where it is not wholly of the text's own
        own = code[(0, 2, 3)[before] : (before + len(data)) * 8 // 6].decode()
        if len(own) >= SHORTEST:
            yield own
            yield own.translate(str.maketrans("+/", "-_"))


def _replaced(text: str, forms: frozenset[str], by: Callable[[str], str]) -> str:
    if forms:
        text = _substituted(text, text, lambda place: place, forms, by)
    if forms and any(sign in text for sign in "\\%&"):
        text = _substituted(text, *_read(text), forms, by)
    return text


def _substituted(
    text: str, read: str, place: Callable[[int], int], forms: frozenset[str], by: Callable[[str], str]
) -> str:
    """The text with another in the place of each form that stands in it as it is read."""
    # far quicker than the expression, and there is hardly ever one
    present = sorted((form for form in forms if form in read), key=len, reverse=True)
    if not present:
        return text
    pieces: list[str] = []
    done = 0
    for found in re.finditer("|".join(map(re.escape, present)), read):
        pieces += [text[done : place(found.start())], by(found.group())]
        done = place(found.end())
    return "".join([*pieces, text[done:]])


def _read(text: str) -> tuple[str, Callable[[int], int]]:
    """The text with every escape as its character, and where in the text a place of that is."""
    read: list[str] = []
    #: where, in what is read and in the text, each escape begins, and what follows it
    ours, theirs = [0], [0]
    end = length = 0
    for escape in _WRITTEN.finditer(text):
        plain, character = text[end : escape.start()], _character(escape.group())
        read += [plain, character]
        length += len(plain)
        ours += [length, length + len(character)]
        theirs += [escape.start(), escape.end()]
        length += len(character)
        end = escape.end()
    read.append(text[end:])

    def place(found: int) -> int:
        known = bisect.bisect_right(ours, found) - 1
        return theirs[known] + found - ours[known]

    return "".join(read), place


def _character(escape: str) -> str:
    if escape.startswith("&"):
        return html.unescape(escape)
    if escape.startswith("%"):
        return chr(int(escape[-2:], 16))
    code = escape.lstrip("\\")
    return chr(int(code[1:], 16)) if code.startswith("u") else code or "\\"


def one_line(text: str, *, secret: str | None = None) -> str:
    """The text on one line of at most 300 characters; the secret, and whatever looks like a key, replaced."""
    if secret:
        text = Secrets([secret]).out_of_message(text)
    return sentence(key_like_hidden(text[: 100 * LONGEST], REDACTED))


def key_like_hidden(text: str, by: str) -> str:
    """The text with another in the place of whatever looks like a provider's key."""
    return _KEY_LIKE.sub(by, text)
