"""From the id of a token to its word, by whatever knows it: a tokenizer, a vocabulary, or a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nbdebug.errors import BadInput
from nbdebug.setup.user_code import user_code

__all__ = ["words_of"]

Words = Callable[[int], str]


def words_of(tokenizer: Any) -> tuple[Words | None, int | None]:
    """Return the function from ids to words, and the id of padding where the tokenizer names one."""
    if tokenizer is None:
        return None, None
    words = _lookup(tokenizer)
    padding = getattr(tokenizer, "pad_token_id", None)
    return _safe(words), padding if isinstance(padding, int) else None


def _lookup(tokenizer: Any) -> Words:
    for name in ("convert_ids_to_tokens", "id_to_token", "IdToPiece", "lookup_token", "decode_single_token"):
        if callable(known := getattr(tokenizer, name, None)):
            return known  # type: ignore[no-any-return]
    if callable(decode := getattr(tokenizer, "decode", None)):
        return lambda token: decode([token])
    if isinstance(tokenizer, Mapping):
        words = tokenizer if all(isinstance(key, int) for key in tokenizer) else {i: w for w, i in tokenizer.items()}
        return lambda token: str(words[token])
    if isinstance(tokenizer, Sequence) and not isinstance(tokenizer, str):
        return lambda token: str(tokenizer[token])
    if callable(tokenizer):
        return tokenizer  # type: ignore[no-any-return]
    raise BadInput(
        f"it is a {type(tokenizer).__name__}",
        where="tokenizer",
        expected="a tokenizer, a vocabulary (a list of tokens, or a dict), or a function from a token id to a token",
        do="write tokenizer=vocabulary.__getitem__, or omit it to see the ids",
    )


def _safe(words: Words) -> Words:
    """Show the id itself where the tokenizer does not know it."""

    def word(token: int) -> str:
        with user_code(passing=()):
            found = words(token)
            return found.decode("utf-8", "replace") if isinstance(found, bytes) else str(found)
        return f"‹{token}›"

    return word
