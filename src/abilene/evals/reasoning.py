"""Switching a model's reasoning, provider by provider."""

from __future__ import annotations

from inspect_ai.model import GenerateConfig

from abilene.errors import UsageError

#: Providers that serve any OpenAI-compatible model: reasoning is switched in the model's chat template.
_TEMPLATE = ("openai-api", "vllm", "sglang")
#: Agents that do not reason.
_NONE = ("behavioural", "local", "mockllm")


def reasoning_config(model: str, reasoning: str | None) -> GenerateConfig:
    """What to send so that a model reasons as asked.

    Parameters
    ----------
    model : str
        Full Inspect name, such as ``openrouter/openai/gpt-oss-120b``.
    reasoning : str, optional
        on, off, low, medium, high; left out: nothing is sent.

    Returns
    -------
    GenerateConfig
        The fields to merge into a call's configuration.

    Raises
    ------
    UsageError
        A level is asked of agents that cannot reason.

    Notes
    -----
    ================================  =====================================================================
    provider                          off
    ================================  =====================================================================
    ``openrouter/...``                ``reasoning_effort="none"``; some models need ``-M reasoning_enabled=false``
    ``google/...``                    ``reasoning_effort="low"``, the least there is
    ``ollama/...``                    ``reasoning_effort`` "none" in the request's body (else it is dropped)
    ``openai-api/...``, vllm, sglang  ``enable_thinking`` false for the chat template
    others                            ``reasoning_effort="none"``
    ================================  =====================================================================

    "on" sends medium effort. Whether "off" was off is checked afterwards, from what was used.

    Examples
    --------
    >>> reasoning_config("ollama/qwen3", "off").extra_body
    {'reasoning_effort': 'none'}
    >>> reasoning_config("google/vertex/gemini-2.5-pro", "off").reasoning_effort
    'low'
    """
    provider = model.split("/", 1)[0]
    if reasoning is None or (provider in _NONE and reasoning == "off"):
        return GenerateConfig()
    if provider in _NONE:
        raise UsageError(f"{model} does not reason. Leave out reasoning, or set it to off.")
    level = "medium" if reasoning == "on" else reasoning
    if provider == "ollama":
        return GenerateConfig(extra_body={"reasoning_effort": "none" if level == "off" else level})
    if provider in _TEMPLATE:
        thinks = {"chat_template_kwargs": {"enable_thinking": level != "off"}}
        if reasoning in ("on", "off"):
            return GenerateConfig(extra_body=thinks)
        return GenerateConfig(extra_body=thinks, reasoning_effort=level)  # type: ignore[arg-type]
    if level == "off":
        level = "low" if provider == "google" else "none"
    return GenerateConfig(reasoning_effort=level)  # type: ignore[arg-type]
