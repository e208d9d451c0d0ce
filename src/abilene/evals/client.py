"""A faster HTTP client for OpenAI-compatible providers."""

from __future__ import annotations

from urllib.request import getproxies

from inspect_ai.model import Model


def use_fast_client(model: Model) -> None:
    """Let an OpenAI-compatible provider talk through aiohttp.

    With some hundred calls at a time the default client spends most of its CPU time on looking through its
    connections. Nothing changes where a proxy is set (the default client knows all its rules), or where the
    provider has no such client.
    """
    from inspect_ai.model._providers.openai_compatible import OpenAICompatibleAPI

    from abilene.evals.local import LocalAPI

    api = model.api
    if not isinstance(api, OpenAICompatibleAPI) or isinstance(api, LocalAPI) or getproxies():
        return
    from openai import DefaultAioHttpClient, Timeout

    seconds = api.client_timeout if api.client_timeout is not None else 600.0
    # A busy event loop may take long to see that a connection stands.
    api.http_client = DefaultAioHttpClient(timeout=Timeout(seconds, connect=max(60.0, seconds)))
    api.initialize()
