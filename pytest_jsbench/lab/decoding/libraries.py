"""Provide one interface for all decoding libraries; each library is imported only in its own process."""

from __future__ import annotations

import ctypes
import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from pytest_jsbench.lab.decoding.vocabulary import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_jsbench.core.cases import Schema
    from pytest_jsbench.lab.decoding.vocabulary import Vocabulary

#: Separators that all grammars require, as in json.dumps; if whitespace were optional, small models would write too
#: much whitespace.
ITEM_SEPARATOR = ", "
KEY_SEPARATOR = ": "


class Unsupported(Exception):
    """The library does not support a schema."""


def is_set(mask: bytes, token: int) -> bool:
    """Return whether the token's bit is set in the mask."""
    return token >> 3 < len(mask) and bool(mask[token >> 3] >> (token & 7) & 1)


class Matcher(ABC):
    """Matcher of one text against a grammar, token by token."""

    @abstractmethod
    def mask(self) -> bytes:
        """Return a mask with one bit per token, lowest bit first; a bit is set if the token is allowed next."""

    @abstractmethod
    def advance(self, token: int) -> None:
        """Append an allowed token to the text."""

    def allows(self, token: int, mask: bytes) -> bool:
        """Return whether the token is allowed next, given the mask."""
        return is_set(mask, token)


class LLGuidance:
    """Adapter for the library llguidance."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        import llguidance

        spelled = [spelling or b"\xff<%d>" % n for n, spelling in enumerate(vocabulary.tokens)]
        wrapper = llguidance.TokenizerWrapper(_Pieces(spelled, vocabulary))
        self._tokenizer = llguidance.LLTokenizer(wrapper)
        self._end = vocabulary.end

    def compile(self, schema: Schema) -> Callable[[], Matcher]:
        """Compile a schema; raise Unsupported with the error that the library reports."""
        from llguidance import LLMatcher

        try:
            grammar = LLMatcher.grammar_from_json_schema(json.dumps(schema), overrides=guidance_options())
        except ValueError as error:
            raise Unsupported(str(error)) from error
        matcher = LLMatcher(self._tokenizer, grammar, log_level=0)
        if matcher.is_error():
            raise Unsupported(matcher.get_error())
        return lambda: _LLGuidanceMatcher(matcher.deep_copy(), self._end)


def guidance_options() -> Any:
    """Return llguidance's options for whitespace."""
    return {"whitespace_flexible": False, "item_separator": ITEM_SEPARATOR, "key_separator": KEY_SEPARATOR}


class _Pieces:
    """A vocabulary in the form that llguidance accepts from Python."""

    bos_token_id = None

    def __init__(self, spelled: list[bytes], vocabulary: Vocabulary) -> None:
        self.tokens = spelled
        self.eos_token_id = vocabulary.end
        self.special_token_ids = [n for n, spelling in enumerate(vocabulary.tokens) if not spelling]
        self._tokenizer = Tokenizer(vocabulary)

    def __call__(self, text: bytes) -> list[int]:
        """Return the tokens for a text that the grammar forces."""
        return self._tokenizer(text) or []


class _LLGuidanceMatcher(Matcher):
    def __init__(self, matcher: Any, end: int) -> None:
        self._matcher = matcher
        self._end = end

    def mask(self) -> bytes:
        mask: bytes = self._matcher.compute_bitmask()
        self._raise()
        return mask

    def allows(self, token: int, mask: bytes) -> bool:  # noqa: ARG002
        # for a text that the grammar forces, the mask allows only one of the possible tokenizations
        if token == self._end:
            return bool(self._matcher.is_accepting())
        return bool(self._matcher.validate_tokens([token]) == 1)

    def advance(self, token: int) -> None:
        self._matcher.consume_token(token)
        self._raise()

    def _raise(self) -> None:
        if self._matcher.is_error():
            raise RuntimeError(self._matcher.get_error())


class Outlines:
    """
    Adapter for the library outlines-core, which converts a schema to a regular expression, and the regular expression
    to an index over the vocabulary.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        from outlines_core import Vocabulary as OutlinesVocabulary

        ids = vocabulary.to_ids()
        spelling_of_end = vocabulary.tokens[vocabulary.end]
        ids.pop(spelling_of_end, None)
        self._vocabulary = OutlinesVocabulary(vocabulary.end, ids)
        self._words = -(-len(vocabulary.tokens) // 32)

    def compile(self, schema: Schema) -> Callable[[], Matcher]:
        """Compile a schema; raise Unsupported if the library rejects the schema."""
        from outlines_core import Guide, Index
        from outlines_core.json_schema import build_regex_from_schema

        try:
            index = Index(build_regex_from_schema(json.dumps(schema)), self._vocabulary)
        except (ValueError, TypeError) as error:
            raise Unsupported(str(error)) from error
        return lambda: _OutlinesMatcher(Guide(index), self._words)


class _OutlinesMatcher(Matcher):
    def __init__(self, guide: Any, words: int) -> None:
        self._guide = guide
        self._buffer = (ctypes.c_uint32 * words)()

    def mask(self) -> bytes:
        self._guide.write_mask_into(ctypes.addressof(self._buffer), len(self._buffer), 4)
        return bytes(self._buffer)

    def advance(self, token: int) -> None:
        self._guide.advance(token, return_tokens=False)


class XGrammar:
    """Adapter for the library xgrammar; as in JSON Schema, objects are open unless the schema closes them."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        import xgrammar

        info = xgrammar.TokenizerInfo(
            list(vocabulary.tokens),
            vocab_type=xgrammar.VocabType.RAW,
            vocab_size=len(vocabulary.tokens),
            stop_token_ids=[vocabulary.end],
        )
        self._size = len(vocabulary.tokens)
        self._compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)

    def compile(self, schema: Schema) -> Callable[[], Matcher]:
        """Compile a schema; raise Unsupported if the library rejects the schema."""
        import xgrammar

        try:
            grammar = self._compiler.compile_json_schema(
                json.dumps(schema),
                any_whitespace=False,
                separators=(ITEM_SEPARATOR, KEY_SEPARATOR),
                strict_mode=False,
            )
        except (ValueError, TypeError) as error:
            raise Unsupported(str(error)) from error
        return lambda: _XGrammarMatcher(
            xgrammar.GrammarMatcher(grammar), xgrammar.allocate_token_bitmask(1, self._size)
        )


class _XGrammarMatcher(Matcher):
    def __init__(self, matcher: Any, bitmask: Any) -> None:
        self._matcher = matcher
        self._bitmask = bitmask

    def mask(self) -> bytes:
        self._matcher.fill_next_token_bitmask(self._bitmask)
        mask: bytes = self._bitmask.numpy().tobytes()
        return mask

    def advance(self, token: int) -> None:
        if not self._matcher.accept_token(token):
            raise RuntimeError(f"xgrammar rejected token {token}, although its mask allows this token")


#: Type of the adapters; `compile` returns a function that creates a matcher for a new text, or raises Unsupported with
#: the library's message.
Library = LLGuidance | Outlines | XGrammar
#: Adapter classes by the name of the engine.
LIBRARIES: Mapping[str, Callable[[Vocabulary], Library]] = {
    "llguidance": LLGuidance,
    "outlines": Outlines,
    "xgrammar": XGrammar,
}
