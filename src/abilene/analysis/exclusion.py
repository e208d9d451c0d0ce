"""Leaving settings out by rule, and saying which and why: nothing disappears in silence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from abilene.analysis.estimate import Estimate
from abilene.analysis.manipulation import Check, off_rule_check_of
from abilene.errors import UsageError
from abilene.records.audit import Audit, SettingAudit

#: Rules by name. Each leaves out what certainly fails (`abilene.analysis.manipulation.Check`), never the undecided.
RULES = {
    "audit": "its audit fails (too many replies without an answer, or reasoning that was to be off)",
    "manipulation": "any of the manipulation checks below fails (those for information do not count)",
    "accuracy": "independent accuracy is not the designed one",
    "picks": "agents do not pick the candidate with more findings in view",
    "counts": "agents do not count findings right",
    "off_rule": "agents often state an answer that is neither their own nor the majority's",
}
_CHECKS = {
    "accuracy": "independent accuracy",
    "picks": "picks",
    "counts": "counts right",
    "off_rule": "off-rule",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Excluded:
    """A setting that was left out.

    Attributes
    ----------
    setting : dict
        Its parts.
    label : str
        The known parts, for display.
    reasons : tuple of str
        The rule and what was found, each.
    """

    setting: dict[str, str | None]
    label: str
    reasons: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """An entry of ``excluded`` in ``abilene estimate --json``."""
        return {"setting": self.setting, "reasons": list(self.reasons)}


def exclude(
    result: Estimate, audit: Audit, checks: Sequence[tuple[Check, ...]], rules: Sequence[str]
) -> tuple[Estimate, tuple[Excluded, ...]]:
    """Leave out settings that fail one of the rules.

    Parameters
    ----------
    result : Estimate
        All settings.
    audit : Audit
        Of the same settings, in the same order.
    checks : sequence of tuple of Check
        Their manipulation checks, in the same order (`abilene.analysis.manipulation.checks_by_setting`).
    rules : sequence of str
        Names of `RULES`.

    Returns
    -------
    Estimate
        The settings that are left.
    tuple of Excluded
        The others, with their reasons.

    Raises
    ------
    UsageError
        An unknown rule.
    """
    check_rules(rules)
    kept, out = [], []
    for setting, audited, own in zip(result.settings, audit.settings, checks, strict=True):
        if reasons := tuple(r for rule in dict.fromkeys(rules) for r in _reasons(rule, audited, own)):
            out.append(Excluded(setting=setting.setting, label=setting.label, reasons=reasons))
        else:
            kept.append(setting)
    return replace(result, settings=tuple(kept)), tuple(out)


def check_rules(rules: Sequence[str]) -> None:
    """Raise UsageError for a rule that there is not."""
    for rule in rules:
        if rule not in RULES:
            raise UsageError(f"Unknown rule {rule!r}. Settings can be left out by: {', '.join(RULES)}.")


def _reasons(rule: str, audited: SettingAudit, checks: tuple[Check, ...]) -> list[str]:
    if rule == "audit":
        return [f"audit: {failure}" for failure in audited.failures]
    # Off-rule statements are counted in every log; the other checks need a design in the record.
    checks = checks or (off_rule_check_of(audited.data),)
    names = tuple(_CHECKS.values()) if rule == "manipulation" else (_CHECKS[rule],)
    return [
        f"{rule}: {c.name} {c.share:.2f} of {c.n} rows, expected {c.expected}"
        for c in checks
        if c.outcome == "fail" and c.name.startswith(names) and (c.binding or rule != "manipulation")
    ]


__all__ = ["RULES", "Excluded", "check_rules", "exclude"]
