"""Posteriors of the behavioural rates: plain arrays in, frozen posteriors out."""

from abilene.inference.correction import FlowPosterior, flow_posterior
from abilene.inference.margin import SettingPosterior, critical_draws, setting_posterior
from abilene.inference.summary import Summary
from abilene.inference.withholding import RatePosterior, rate_posterior

__all__ = [
    "FlowPosterior",
    "RatePosterior",
    "SettingPosterior",
    "Summary",
    "critical_draws",
    "flow_posterior",
    "rate_posterior",
    "setting_posterior",
]
