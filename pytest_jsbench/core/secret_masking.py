"""
Replace known secrets in text, in every encoding in which a server may quote the secrets.

Engines and the plugin know the secrets; this module only finds and replaces them.
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pytest_jsbench.core.text import LONGEST, sentence

#: Minimum length of a secret that is replaced in answers; a shorter secret cannot be distinguished from a word.
SHORTEST = 8
REDACTED = "[key]"

#: Text in the form of a provider's key, either complete or masked as providers quote keys (`sk-abc***xyz`).
_KEY_LIKE = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai|hf|nvapi|r8|pplx)[-_][\w*•.…-]{5,}[\w*•…-]|\bAIza[\w*-]{10,}|(?i:\bbearer\s+)[\w.~+/=*-]{5,}[\w~+/=*-]"
)
#: Minimum number of characters to recognise a short secret, or the beginning of a truncated secret, in messages.
_BEGINNING = 6
_ESCAPE = (
    r'\\+u[0-9A-Fa-f]{4}|\\+["/]|\\{2,}|%(?:25)*[0-9A-Fa-f]{2}|&(?:#\d{1,7}|#[xX][0-9A-Fa-f]{1,6}|amp|lt|gt|quot|apos);'
)
#: A character escaped by JSON (also nested), a URL or HTML; and any character, escaped or not.
_ESCAPED, _WRITTEN = re.compile(_ESCAPE), re.compile(rf"{_ESCAPE}|.", re.DOTALL)


class Secrets:
    """The secrets of a run; the repr of this object shows no secret."""

    __slots__ = ("_forms", "_in_messages", "_long")

    def __init__(self, texts: Iterable[str] = (), *, in_messages: Iterable[str] = ()) -> None:
        """Replace `texts` everywhere if they are long enough; replace `in_messages`, of any length, only in
        messages.
        """
        stripped = {text.strip() for text in texts}
        self._long = tuple(sorted(text for text in stripped if len(text) >= SHORTEST))
        forms = {form for text in self._long for form in (text, *_base64_parts(text))}
        self._forms = sorted(forms, key=len, reverse=True)
        words = [rf"(?<!\w){re.escape(text)}(?!\w)" for text in stripped if _BEGINNING <= len(text) < SHORTEST]
        shown = [*words, *(re.escape(text) for text in sorted(in_messages, key=len, reverse=True) if text)]
        self._in_messages = re.compile("|".join(shown)) if shown else None

    def mask_answer(self, text: str) -> str:
        """
        Return the text with each character of a secret replaced by `*`, or by `1` in a number, so that JSON stays
        valid.
        """
        return self._replace(text, lambda secret: ("1" if secret[0].isdecimal() else "*") * len(secret[0]))

    def may_change(self, text: str) -> bool:
        """
        Return whether `mask_message` may change the text or one of its lines; for nearly every text, return False.

        Many short texts are checked faster as the lines of one text than one by one.
        """
        if self._in_messages is not None and self._in_messages.search(text):
            return True
        if not self._forms:
            return False
        if any(form in text for form in self._forms):
            return True
        if any(sign in text for sign in "\\%&") and self._pattern_for(_ESCAPED.sub(_character, text)):
            return True
        return any(secret[:_BEGINNING] in text for secret in self._long)

    def mask_message(self, text: str) -> str:
        """
        Return the text with each secret replaced by `[key]`, including a secret that is truncated at the end of the
        text.
        """
        if self._in_messages is not None:
            text = self._in_messages.sub(REDACTED, text)
        text = self._replace(text, lambda _: REDACTED)
        end = text.rstrip("….")
        if end == text:
            return text
        for secret in self._long:
            for length in range(len(secret) - 1, _BEGINNING - 1, -1):
                if end.endswith(secret[:length]):
                    return f"{end[:-length]}{REDACTED}{text[len(end) :]}"
        return text

    def mask(self, value: Any) -> Any:
        """Return JSON values with the secrets in all strings and object keys replaced."""
        match value:
            case str():
                return self.mask_message(value)
            case Mapping():
                return {self.mask(name): self.mask(each) for name, each in value.items()}
            case list() | tuple():
                return [self.mask(each) for each in value]
            case _:
                return value

    def _replace(self, text: str, by: Callable[[re.Match[str]], str]) -> str:
        if secrets := self._pattern_for(text):
            text = secrets.sub(by, text)
        plain = _ESCAPED.sub(_character, text) if self._forms and any(sign in text for sign in "\\%&") else ""
        if secrets := self._pattern_for(plain):
            written = _WRITTEN.findall(text)
            for secret in reversed(list(secrets.finditer(plain))):
                written[slice(*secret.span())] = [by(secret)]
            text = "".join(written)
        return text

    def _pattern_for(self, text: str) -> re.Pattern[str] | None:
        """Return a pattern for the secrets that occur in the text; for nearly every text, return None quickly."""
        present = [re.escape(form) for form in self._forms if form in text]
        return re.compile("|".join(present)) if present else None


def _base64_parts(text: str) -> Iterable[str]:
    """Yield, for each alignment, the part of the text's Base64 that occurs in the Base64 of any longer text."""
    data = text.encode("utf-8", "surrogatepass")
    for before in range(3):
        code = base64.b64encode(bytes(before) + data)
        # Leave out characters that also encode bits of neighbouring bytes.
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
    """Return one line of at most 300 characters, with the secret and anything in the form of a key replaced."""
    if secret:
        text = Secrets([secret]).mask_message(text)
    return sentence(key_like_hidden(text[: 100 * LONGEST], REDACTED))


def key_like_hidden(text: str, by: str) -> str:
    """Return the text with anything in the form of a provider's key replaced."""
    return _KEY_LIKE.sub(by, text)
