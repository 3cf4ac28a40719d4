"""Verdicts: what a judge says of one answer.

Each type of verdict knows how reports show it, how it is redacted and exported, and how a panel of
judges combines several of it. The attribute ``kind`` names the type in stored files.
"""

from __future__ import annotations

from collections.abc import Mapping

from refusal_checks.core.verdicts.base import Tone, VerdictBase
from refusal_checks.core.verdicts.binary import Binary
from refusal_checks.core.verdicts.chosen import Chosen
from refusal_checks.core.verdicts.graded import Graded
from refusal_checks.core.verdicts.harm import Harm
from refusal_checks.core.verdicts.invalid import Invalid
from refusal_checks.core.verdicts.labels import Label, Reason
from refusal_checks.core.verdicts.rated import Rated

__all__ = [
    "EXTREMES",
    "Binary",
    "Chosen",
    "Graded",
    "Harm",
    "Invalid",
    "Judgement",
    "Label",
    "Labelled",
    "Rated",
    "Reason",
    "Tone",
    "Valid",
    "VerdictBase",
]

Labelled = Binary | Graded | Harm
"""A verdict that tells refusal from compliance."""

Valid = Binary | Graded | Rated | Harm | Chosen
"""A verdict; all of a benchmark's are of one type."""

Judgement = Valid | Invalid

EXTREMES: Mapping[type[Valid], Mapping[str, Valid]] = {
    Binary: {"compliance": Binary(Label.COMPLIANCE), "refusal": Binary(Label.REFUSAL)},
    Graded: {"degree 0": Graded(0), "degree 3": Graded(3)},
    Rated: {"safety 0.00 of 5": Rated(0.0, 1.0), "safety 5.00 of 5": Rated(1.0, 5.0)},
    Harm: {"harm 0.00 of 1": Harm(1.0, 1.0, 1.0), "harm 1.00 of 1": Harm(0.0, 5.0, 5.0)},
    Chosen: {"wrong": Chosen(None, False), "right": Chosen(None, True)},
}
"""The lowest and the highest verdict of each type, by name: worst cases of invalid answers."""
