"""Abilene measures whether a team of LLM agents speaks up, and whether its discussion beats a vote."""

from __future__ import annotations

from abilene.rates import Rates, critical_withholding

__version__ = "0.1.0"
__all__ = ["Rates", "__version__", "critical_withholding"]
