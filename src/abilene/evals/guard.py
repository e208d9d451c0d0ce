"""Keeping credentials out of logs: what a server echoes is cleaned before Inspect writes it down.

Some servers repeat the request's headers in an error, or even in a reply. Inspect stores errors, with tracebacks, and
replies as they come; so the provider's own `generate` is the last place to clean them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

from inspect_ai.model import Model, ModelOutput

from abilene.evals.ask import without_secrets

_MARK = "_abilene_guarded"


def guard(model: Model) -> None:
    """Clean whatever this model's provider returns or raises from now on."""
    api: Any = model.api
    if getattr(api, _MARK, False):
        return
    inner: Callable[..., Awaitable[Any]] = api.generate

    @wraps(inner)
    async def generate(*args: Any, **kwargs: Any) -> Any:
        try:
            result = await inner(*args, **kwargs)
        except Exception as e:
            clean_exception(e)
            raise
        return tuple(map(_clean, result)) if isinstance(result, tuple) else _clean(result)

    api.generate = generate
    setattr(api, _MARK, True)


def _clean(part: Any) -> Any:
    """An output, a record of the call, or an exception, without secrets; the same object where there are none."""
    if isinstance(part, BaseException):
        clean_exception(part)
        return part
    if not isinstance(part, ModelOutput) and not hasattr(part, "model_validate_json"):
        return part
    text = part.model_dump_json()
    cleaned = without_secrets(text)
    return part if cleaned == text else type(part).model_validate_json(cleaned)


def clean_exception(error: BaseException) -> None:
    """Clean an exception and those behind it, in place: message, arguments and the body of a response."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        current.args = tuple(_plain(a) for a in current.args)
        for name, value in list(vars(current).items()):
            if isinstance(value, str | dict | list):
                setattr(current, name, _plain(value))
        current = current.__cause__ or current.__context__


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_plain(v) for v in value]
    return value
