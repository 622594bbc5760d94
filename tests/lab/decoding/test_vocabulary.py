from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.core.errors import EngineError, MissingRequirement
from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.engines.local import find_model_file
from pytest_jsbench.lab.decoding.vocabulary import Tokenizer, Vocabulary

NORMAL, CONTROL, USER_DEFINED, BYTE = 1, 3, 4, 6


def text(value: str) -> bytes:
    encoded = value.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def gguf(path: Path, kind: str, tokens: dict[str, int], *, end: int = 0, **more: bytes) -> Path:
    """Write a file with only a header, following the format's specification."""
    values = {
        "tokenizer.ggml.model": struct.pack("<I", 8) + text(kind),
        "general.alignment": struct.pack("<IQ", 10, 32),
        "tokenizer.ggml.tokens": struct.pack("<IIQ", 9, 8, len(tokens)) + b"".join(map(text, tokens)),
        "tokenizer.ggml.token_type": struct.pack(f"<IIQ{len(tokens)}i", 9, 5, len(tokens), *tokens.values()),
        "tokenizer.ggml.eos_token_id": struct.pack("<II", 4, end),
        **more,
    }
    body = b"".join(text(name) + value for name, value in values.items())
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(values)) + body)
    return path


def test_byte_level_tokens_spell_bytes_and_special_ones_nothing(tmp_path: Path) -> None:
    tokens = {"<|end|>": CONTROL, "a": NORMAL, "Ġb": NORMAL, "Ċ": NORMAL, "Ã¼": NORMAL, "<tool>": USER_DEFINED}
    vocabulary = Vocabulary.from_gguf(gguf(tmp_path / "m.gguf", "gpt2", tokens))
    assert vocabulary.tokens == (b"", b"a", b" b", b"\n", "ü".encode(), b"<tool>")
    assert vocabulary.end == 0


def test_sentencepiece_tokens_spell_bytes_too(tmp_path: Path) -> None:
    tokens = {"<unk>": 2, "</s>": CONTROL, "▁the": NORMAL, "ü": NORMAL, "<0x0A>": BYTE}
    vocabulary = Vocabulary.from_gguf(gguf(tmp_path / "m.gguf", "llama", tokens, end=1))
    assert vocabulary.tokens == (b"", b"", b" the", "ü".encode(), b"\n")
    assert vocabulary.end == 1


def test_a_text_is_cut_into_the_longest_tokens_from_the_left() -> None:
    tokenizer = Tokenizer(Vocabulary(tokens=(b"", b"a", b"ab", b"abc", b"c", b"b"), end=0))
    assert tokenizer(b"abcab") == [3, 2]
    assert tokenizer(b"abac") == [2, 1, 4]
    assert tokenizer(b"") == []
    assert tokenizer(b"abx") is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file does not begin with GGUF"),
        (b"PK\x03\x04 and so on", "the file does not begin with GGUF"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 5), "error"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1 << 60), "a length of 1152921504606846976"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 0), "KeyError: 'tokenizer.ggml.model'"),
    ],
)
def test_what_is_no_gguf_is_said_in_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    with pytest.raises(EngineError, match=r"cannot read the vocabulary of .*expected a GGUF file") as caught:
        Vocabulary.from_gguf(path)
    assert message in str(caught.value)


def test_a_vocabulary_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"unsupported vocabulary type 'bert'; expected one of gpt2, llama"):
        Vocabulary.from_gguf(gguf(tmp_path / "m.gguf", "bert", {"a": NORMAL}))


def test_the_embedded_models_vocabulary_spells_any_json() -> None:
    try:
        path = find_model_file(EngineConfig(name="local"))
    except MissingRequirement as error:
        pytest.skip(str(error))
    vocabulary = Vocabulary.from_gguf(path)
    assert len(vocabulary.tokens) == 49152
    assert vocabulary.tokens[vocabulary.end] == b""
    document: Any = '{"größe": [1, -2.5e10, true, null], "☃": "\\u0000 naïve\\n 日本"}'
    tokens = Tokenizer(vocabulary)(document.encode())
    assert tokens is not None
    assert b"".join(vocabulary.tokens[token] for token in tokens).decode() == document
    assert len(tokens) < len(document)
