"""Read a model's vocabulary, as bytes, from the header of its GGUF file."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from pytest_jsbench.core.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

#: Format for `struct` of each scalar type in GGUF, by the type's number; type 8 is a string, and type 9 an array.
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING = 8
_ARRAY = 9
_PREFIX = "tokenizer.ggml."
#: Types of tokens that stand for text: normal text, user-defined, and a single byte; other types (unknown, control,
#: unused) have no spelling.
_NORMAL = 1
_USER_DEFINED = 4
_BYTE = 6
#: Maximum length of vocabularies, and of strings in a header.
_LONGEST = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """The tokens of a model, as bytes."""

    #: Spelling of each token, by the token's number; empty for tokens without a spelling, such as the end of an answer.
    tokens: tuple[bytes, ...]
    #: Token that ends an answer.
    end: int

    @classmethod
    def from_gguf(cls, path: Path) -> Vocabulary:
        """Read a vocabulary; raise EngineError if the file is not GGUF, or the kind of its vocabulary is unknown."""
        try:
            with path.open("rb") as file:
                header = _Header(file).read()
            kind = header[f"{_PREFIX}model"]
            tokens: Sequence[str] = header[f"{_PREFIX}tokens"]
            types: Sequence[int] = header.get(f"{_PREFIX}token_type") or [_NORMAL] * len(tokens)
            end = int(header[f"{_PREFIX}eos_token_id"])
        except (OSError, KeyError, ValueError, struct.error) as error:
            message = f"cannot read the vocabulary of {path}: {type(error).__name__}: {error}; expected a GGUF file"
            raise EngineError(message) from error
        spell = _SPELLINGS.get(kind)
        if spell is None:
            message = f"{path} has a vocabulary of the kind {kind!r}; expected one of {', '.join(sorted(_SPELLINGS))}"
            raise EngineError(message)
        return cls(tokens=tuple(spell(*pair) for pair in zip(tokens, types, strict=True)), end=end)

    def to_ids(self) -> dict[bytes, list[int]]:
        """Return the numbers of the tokens by spelling; several tokens may have the same spelling."""
        ids: dict[bytes, list[int]] = {}
        for number, spelling in enumerate(self.tokens):
            if spelling:
                ids.setdefault(spelling, []).append(number)
        return ids


class Tokenizer:
    """
    A tokenizer that repeatedly takes the longest token from the left.

    The model may split the bytes in another way, but grammars do not depend on the split.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._ids = vocabulary.to_ids()
        self._longest = max(map(len, self._ids), default=0)

    def __call__(self, text: bytes) -> list[int] | None:
        """Return the tokens; None if no token matches a part of the text."""
        tokens: list[int] = []
        position = 0
        while position < len(text):
            for length in range(min(self._longest, len(text) - position), 0, -1):
                ids = self._ids.get(text[position : position + length])
                if ids is not None:
                    tokens.append(ids[0])
                    position += length
                    break
            else:
                return None
        return tokens


class _Header:
    """Key-value pairs at the beginning of a GGUF file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def read(self) -> Mapping[str, Any]:
        if self._file.read(4) != b"GGUF":
            raise ValueError("it does not begin with GGUF")
        version, _tensors, pairs = self._unpack("IQQ")
        if version < 2:
            raise ValueError(f"GGUF version {version}")
        values: dict[str, Any] = {}
        for _ in range(pairs):
            name = self._string()
            (kind,) = self._unpack("I")
            values[name] = self._value(kind)
        return values

    def _unpack(self, layout: str) -> tuple[Any, ...]:
        layout = f"<{layout}"
        return struct.unpack(layout, self._file.read(struct.calcsize(layout)))

    def _length(self) -> int:
        (length,) = self._unpack("Q")
        if length > _LONGEST:
            raise ValueError(f"a length of {length}")
        return int(length)

    def _string(self) -> str:
        return self._file.read(self._length()).decode("utf-8", "surrogateescape")

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            (inner,) = self._unpack("I")
            length = self._length()
            if inner in _SCALARS:
                return self._unpack(f"{length}{_SCALARS[inner]}")
            return [self._value(inner) for _ in range(length)]
        if kind not in _SCALARS:
            raise ValueError(f"a value of type {kind}")
        return self._unpack(_SCALARS[kind])[0]


_PRINTING = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
_OTHERS = [byte for byte in range(256) if byte not in _PRINTING]
#: Byte for each character in byte-level BPE: printable bytes stand for themselves, the others for characters from
#: U+0100.
_ALPHABET = {chr(byte): byte for byte in _PRINTING} | {chr(0x100 + n): byte for n, byte in enumerate(_OTHERS)}


def _spell_bpe(token: str, kind: int) -> bytes:
    if kind == _USER_DEFINED:
        return token.encode("utf-8", "surrogateescape")
    if kind not in (_NORMAL, _BYTE) or any(letter not in _ALPHABET for letter in token):
        return b""
    return bytes(_ALPHABET[letter] for letter in token)


def _spell_sentencepiece(token: str, kind: int) -> bytes:
    if kind == _BYTE:
        return bytes([int(token[3:5], 16)])  # <0x0A>
    if kind not in (_NORMAL, _USER_DEFINED):
        return b""
    return token.replace("\N{LOWER ONE EIGHTH BLOCK}", " ").encode("utf-8", "surrogateescape")


#: Functions that decode spellings, by the vocabulary's kind in GGUF.
_SPELLINGS: Mapping[str, Callable[[str, int], bytes]] = {"gpt2": _spell_bpe, "llama": _spell_sentencepiece}
