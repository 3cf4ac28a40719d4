"""Say where a run's engines would go on hardware that need not be here: ``doctor --hardware``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from refusal_checks.cli.doctor.checks import Diagnosis, fail, ok, warn
from refusal_checks.core.errors import UserError
from refusal_checks.engines import kinds
from refusal_checks.engines.devices import Devices
from refusal_checks.engines.gpu_placing import Gpus
from refusal_checks.engines.placement import EngineNeed, Placement, PlacementRequest
from refusal_checks.engines.placing import choose
from refusal_checks.engines.pool import needs_of
from refusal_checks.evaluation import model_config
from refusal_checks.models.names import CandidateModel, JudgeModel, Model, Served
from refusal_checks.spec import RunSpec

DEFAULT_JUDGE = EngineNeed(
    "openai/gpt-oss-20b",
    weights=12.8,
    answers=False,
    judges=True,
    vocabulary=201_088,
    is_mixture=True,
)
"""The judge of the run file that ``init`` writes. The size of its files is that of its model card
(arXiv 2508.10925, table 1)."""

STEP = 0.5
"""GiB of weights between two sizes of a candidate that are tried."""

PARAMETERS = 2**30 / 2 / 1e9
"""Billions of parameters in a GiB of weights of 16 bits."""

VOCABULARY = 152_000
"""Tokens of the candidates that are tried, as of Qwen3."""


def parsed(text: str) -> Devices:
    """Devices from ``2x80`` or ``1x24GiB``: their number and the GiB of each.

    Raises:
        UserError: it says something else, or more than 99 GPUs, or of 1,000 GiB.
    """
    given = re.fullmatch(
        r"(\d{1,2})x(\d{1,3}(?:\.\d+)?)(?:Gi?B?)?", text, re.IGNORECASE
    )
    if given and int(given[1]) and float(given[2]):
        ids = tuple(map(str, range(int(given[1]))))
        return Devices("gpu", ids, float(given[2]))
    raise UserError(
        f"--hardware {text}: write the number of GPUs and the GiB of each: 1x24GiB, 2x80, 8x80 "
        "(99 GPUs and 999 GiB at most)"
    )


def planned(spec: RunSpec, devices: Devices) -> Iterator[Diagnosis]:
    """Where each candidate and its judges would go, and what fits beside the judges."""
    judges: Sequence[JudgeModel] = ()
    candidates: Sequence[CandidateModel] = ()
    if spec.engine.name == kinds.AUTO:
        # What is installed here says nothing about a machine with these GPUs.
        spec = spec.with_value("engine.name", kinds.PREFERRED)
    try:
        request = model_config.placement(spec)
        if spec.judge.model:
            judges = model_config.read_judges(spec).models
        if spec.candidate.model:
            candidates = [model_config.read_candidate(spec)]
    except UserError as fault:
        yield fail("placement", str(fault))
        return

    beside = _needs([], judges)
    if not judges:
        beside = [DEFAULT_JUDGE]
    for candidate in candidates:
        if isinstance(candidate, Served):
            needs = _needs([candidate], judges)
            if not judges:
                needs.append(DEFAULT_JUDGE)
            yield _placed(devices, needs, request)
    here = [need for need in beside if not need.parallel.is_elsewhere]
    yield _largest(devices, here, request)


def _needs(candidates: Iterable[Model], judges: Iterable[Model]) -> list[EngineNeed]:
    """What these models' engines need; the default judge's size is known without its files."""
    needs = []
    for need in needs_of(candidates, judges).values():
        if need.weights is None and need.model == DEFAULT_JUDGE.model:
            need = replace(
                need,
                weights=DEFAULT_JUDGE.weights,
                vocabulary=DEFAULT_JUDGE.vocabulary,
                is_mixture=DEFAULT_JUDGE.is_mixture,
            )
        needs.append(need)
    return needs


def _unknown(needs: Iterable[EngineNeed]) -> str:
    """The models whose weights have an unknown size, and what to do; empty if there are none."""
    names = ", ".join(need.name for need in needs if need.weights is None)
    if not names:
        return ""
    return f"{names}: weights of unknown size: download the model first"


def _placed(
    devices: Devices, needs: Sequence[EngineNeed], request: PlacementRequest
) -> Diagnosis:
    try:
        placement = choose(devices, needs, request)
    except UserError as fault:
        return fail("placement", str(fault))
    unknown = _unknown(needs)
    if unknown:
        return warn("placement", unknown)
    engines = "; ".join(_engines(devices, needs, placement))
    shown = f"{_named(devices)}, {placement.kind}: {engines}"
    tight = _tight(Gpus(devices), needs)
    return warn("placement", shown, tight) if tight else ok("placement", shown)


def _tight(hardware: Gpus, needs: Iterable[EngineNeed]) -> str:
    """What to do about models that may not even fit alone; empty if all of them do.

    Nothing is known of those whose arguments change what they take, or say where they run.
    """
    tight = []
    for need in needs:
        is_known = not (need.parallel.is_unusual or need.parallel.is_elsewhere)
        if is_known and not hardware.fit_alone(need):
            tight.append(need.shown)
    if not tight:
        return ""
    return (
        f"{', '.join(tight)} may not fit: use a smaller model, or more or larger GPUs"
    )


def _named(devices: Devices) -> str:
    return f"{len(devices.ids)} x {devices.memory:g} GiB"


def _engines(
    devices: Devices, needs: Sequence[EngineNeed], placement: Placement
) -> Iterator[str]:
    for need, place in zip(needs, placement.places, strict=True):
        role = "candidate" if need.answers else "judge"
        if need.answers and need.judges:
            role = "candidate and judge"
        share = place.memory or need.parallel.memory
        words = f"{role} {need.shown}"
        if need.parallel.is_elsewhere:
            yield f"{words} where its arguments say"
            continue
        words += f" on GPU {','.join(place.devices or devices.ids)}"
        if place.shards > 1:
            words += f", cut over {place.shards}"
        if place.copies > 1:
            words += f", {place.copies} copies"
        if share and devices.memory:
            words += f", {share * devices.memory:.1f} GiB of each"
        if place.cache is not None:
            words += f" with a cache of {place.cache:.1f}"
        yield words


def _largest(
    devices: Devices,
    judges: Sequence[EngineNeed],
    request: PlacementRequest,
) -> Diagnosis:
    """The largest candidate that fits beside the judges, and in turns with them."""
    unknown = _unknown(judges)
    if unknown:
        return warn("placement", unknown)
    try:
        choose(devices, judges, request)
    except UserError as fault:
        return fail("placement", str(fault))
    hardware, machine = Gpus(devices), _named(devices)
    tight = _tight(hardware, judges)
    if tight:
        return warn("placement", machine, tight)
    together, in_turns = 0.0, 0.0
    size = STEP
    while size < len(devices.ids) * (devices.memory or 0.0):
        candidate = EngineNeed("a candidate", weights=size, vocabulary=VOCABULARY)
        if hardware.fit_alone(candidate):
            in_turns = size
            needs = [candidate, *judges]
            if hardware.fit_apart(needs) or hardware.fit_together(needs):
                together = size
        size += STEP
    beside = "without a judge there"
    if judges:
        beside = f"beside {', '.join(need.name for need in judges)}"
    if not in_turns:
        return fail("placement", f"{machine}: no model fits")
    if not together:
        shown = f"{machine}: no candidate fits {beside}"
    else:
        shown = f"{machine}: {beside}, a candidate may have {_sized(together)}"
    if in_turns > together:
        shown += f"; in turns, {_sized(in_turns)}"
    return ok("placement", shown)


def _sized(weights: float) -> str:
    billions = weights * PARAMETERS
    shown = f"{billions:.0f}" if billions >= 10 else f"{billions:.1f}"
    return f"{weights:.1f} GiB ({shown} billion parameters of 16 bits)"
