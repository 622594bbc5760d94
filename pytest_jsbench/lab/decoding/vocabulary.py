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
#: Types of tokens that stand for text: normal, user-defined, and single byte. Tokens of other types (unknown, control,
#: unused) stand for no text.
_NORMAL = 1
_USER_DEFINED = 4
_BYTE = 6
#: Maximum length of an array or a string in a header.
_LONGEST = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """The tokens of a model, as bytes."""

    #: Bytes of each token, by the token's id; empty for tokens that stand for no text, such as the end of an answer.
    tokens: tuple[bytes, ...]
    #: Id of the token that ends an answer.
    end: int

    @classmethod
    def from_gguf(cls, path: Path) -> Vocabulary:
        """Read a vocabulary; raise EngineError for a file that is not GGUF, or an unsupported vocabulary type."""
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
            message = f"{path}: unsupported vocabulary type {kind!r}; expected one of {', '.join(sorted(_SPELLINGS))}"
            raise EngineError(message)
        return cls(tokens=tuple(spell(*pair) for pair in zip(tokens, types, strict=True)), end=end)

    def to_ids(self) -> dict[bytes, list[int]]:
        """Return the ids of the tokens by the tokens' bytes; several tokens may have the same bytes."""
        ids: dict[bytes, list[int]] = {}
        for number, spelling in enumerate(self.tokens):
            if spelling:
                ids.setdefault(spelling, []).append(number)
        return ids


class Tokenizer:
    """
    A greedy tokenizer, which takes the longest matching token at each position.

    The model may tokenize the same text in another way, but grammars do not depend on the tokenization.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._ids = vocabulary.to_ids()
        self._longest = max(map(len, self._ids), default=0)

    def __call__(self, text: bytes) -> list[int] | None:
        """Return the ids of the tokens; None if some part of the text matches no token."""
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
            raise ValueError("the file does not begin with GGUF")
        version, _tensors, pairs = self._unpack("IQQ")
        if version < 2:
            raise ValueError(f"unsupported GGUF version {version}")
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
            raise ValueError(f"found a length of {length}, the maximum is {_LONGEST}")
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
            raise ValueError(f"unknown value type {kind}")
        return self._unpack(_SCALARS[kind])[0]


_PRINTING = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
_OTHERS = [byte for byte in range(256) if byte not in _PRINTING]
#: Byte that each character represents in byte-level BPE: a printable character represents its own code point, and the
#: characters from U+0100 represent the remaining bytes.
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


#: Functions that convert a token's text in GGUF to bytes, by the type of the vocabulary.
_SPELLINGS: Mapping[str, Callable[[str, int], bytes]] = {"gpt2": _spell_bpe, "llama": _spell_sentencepiece}
