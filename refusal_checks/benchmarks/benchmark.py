"""Define benchmarks, read their prompts, and draw stratified, seeded samples of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Protocol

from refusal_checks.core.errors import DataError
from refusal_checks.core.prompts import Kind, Prompt
from refusal_checks.core.text import sanitize


class Resource(Protocol):
    """A part of a benchmark's data, in a mirror or on the network."""

    @property
    def revision(self) -> str:
        """The commit that is used."""

    @property
    def is_pinned(self) -> bool:
        """True if a known digest protects its place in a mirror from other data."""

    @property
    def is_gated(self) -> bool:
        """True if only accounts that have accepted its conditions may fetch it."""

    def is_in(self, mirror: Path) -> bool: ...

    def pull(self, mirror: Path) -> None:
        """Fetch it from the network into a mirror."""


@dataclass(frozen=True)
class Benchmark:
    """A named set of prompts.

    Attributes:
        load: function that reads the prompts from the folder of a mirror, or from the network if
            that is None.
        revision: version of the data for manifests, for example a commit or a sha256.
        judge: name of a way of judging; its type of verdict determines the metrics.
        resources: the public data that ``load`` reads.
        sha256: expected ``digest`` of the prompts; empty if unknown.
        limit: most prompts to evaluate (see ``stratified_sample``); None for all.
        usual_limit: the run file's limit, before command-line options.
        max_answer_chars: most characters of an answer that the judge sees; None for the setting of
            the run.
        original: the same benchmark from its authors' own files, for mirrors that hold those
            instead.
        category_guide: TOML file that explains each category to a judge of ratings, or a Markdown
            file with a rubric for all.
        key: for multiple choice, the file with the right options.
        group_order: groups that reports list first, in this order.
        parts: benchmarks whose prompts are all in this one too.
    """

    name: str
    kind: Kind
    description: str
    load: Callable[[Path | None], Sequence[Prompt]]
    revision: str
    judge: str = "refusal"
    resources: tuple[Resource, ...] = ()
    sha256: str = ""
    limit: int | None = None
    usual_limit: int | None = None
    max_answer_chars: int | None = None
    original: Benchmark | None = None
    category_guide: Path | None = None
    key: Path | None = None
    group_order: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()

    @property
    def is_pinned(self) -> bool:
        """True if data other than the known one is refused."""
        return bool(self.sha256) or all(
            resource.is_pinned for resource in self.resources
        )

    @property
    def is_gated(self) -> bool:
        """True if its data needs the token of an account that has accepted conditions."""
        return any(resource.is_gated for resource in self.resources)

    def is_in(self, mirror: Path) -> bool:
        return all(resource.is_in(mirror) for resource in self.resources)

    def at(self, mirror: Path | None) -> Benchmark:
        """The benchmark to read from a mirror: its original if the mirror holds only that."""
        if mirror is None or self.original is None or self.is_in(mirror):
            return self
        return self.original if self.original.is_in(mirror) else self


def digest(prompts: Iterable[Prompt]) -> str:
    """SHA-256 of the prompts' ids, messages, groups and references, in order."""
    # JSON with sorted keys: neither Python's version nor a field's place changes the digest.
    checksum = hashlib.sha256()
    for prompt in prompts:
        fields = asdict(prompt)
        row = {name: fields[name] for name in ("id", "messages", "groups", "reference")}
        if prompt.judge_sees:
            row["judge_sees"] = fields["judge_sees"]
        text = json.dumps(row, sort_keys=True, separators=(",", ":"))
        checksum.update(text.encode() + b"\n")
    return checksum.hexdigest()


def load_prompts(benchmark: Benchmark, mirror: Path | None) -> tuple[Prompt, ...]:
    """Load a benchmark's prompts; DataError unless they can be asked, stored and told apart."""
    try:
        loaded = list(benchmark.load(mirror))
    except (ValueError, LookupError, TypeError, OverflowError, RecursionError) as fault:
        why = f"{type(fault).__name__}: {sanitize(str(fault), 200)}"
        raise DataError(f"{benchmark.name}: its data cannot be read: {why}") from fault
    # Judging and metrics ask the prompt for its kind, and the loaders of suites do not set it.
    prompts = tuple(replace(prompt, kind=benchmark.kind) for prompt in loaded)
    if not prompts:
        raise DataError(f"{benchmark.name}: no prompts")
    seen: set[str] = set()
    for prompt in prompts:
        if prompt.id in seen:
            raise DataError(f"{benchmark.name}: two prompts have the id {prompt.id}")
        seen.add(prompt.id)
        if not prompt.messages or not prompt.request.strip():
            raise DataError(f"{benchmark.name}: prompt {prompt.id} is empty")
        _require_storable(benchmark, prompt)
    if benchmark.sha256:
        _require_digest(benchmark, prompts)
    return prompts


def _require_storable(benchmark: Benchmark, prompt: Prompt) -> None:
    turns = *prompt.messages, *prompt.judge_sees
    texts = [prompt.id, *(turn.content for turn in turns)]
    texts += [*prompt.groups, *prompt.groups.values()]
    texts += [prompt.reference or "", *prompt.options.values()]
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        raise DataError(
            f"{benchmark.name}: prompt {sanitize(prompt.id)}: replace the lone surrogates (half a "
            "character each) in its texts or groups: no file can hold them"
        ) from None


def _require_digest(benchmark: Benchmark, prompts: Sequence[Prompt]) -> None:
    sha256 = digest(prompts)
    if sha256 != benchmark.sha256:
        raise DataError(
            f"{benchmark.name}: the data has changed: its {len(prompts)} rows have sha256 {sha256}"
            f", expected {benchmark.sha256} (revision {benchmark.revision}). Look at what changed; "
            f'to accept it, write sha256 = "{sha256}" into [{benchmark.name}] of a run file'
        )


STRATA = ("category", "language", "history")
"""Kinds of group whose proportions a sample keeps, the most important first."""

SEED = 0
"""Selects one of the equally good samples; do not change it, or runs become incomparable."""

_GOLDEN = (5**0.5 - 1) / 2
"""Its multiples, modulo 1, cover [0, 1) as evenly as those of any number, however many are taken
(S. Swierczkowski, "On successive settings of an arc on the circumference of a circle", Fundamenta
Mathematicae 46, 1958)."""


Unit = Sequence[Prompt]
"""Prompts that are drawn together: those of one cluster, or one that stands alone."""


def stratified_sample(
    prompts: Sequence[Prompt], limit: int | None, seed: int = SEED
) -> tuple[Prompt, ...]:
    """Sample at most ``limit`` prompts with the whole's mix of groups (``STRATA``), in order.

    Clusters are drawn whole, so a sample may have fewer prompts than its limit, by less than the
    largest cluster; it has more only if the first cluster alone does.

    Groups are sampled systematically, each from its own start: a group's share of a sample is its
    share of the whole, to within a prompt or a cluster in any sample, and exactly on average over
    seeds, however small it is. The sample depends on ids, groups, clusters and seed, not on the
    prompts' order; a larger limit keeps what a smaller one drew.
    """
    if limit is None or limit >= len(prompts):
        return tuple(prompts)
    clusters: dict[str, list[Prompt]] = {}
    alone: list[Unit] = []
    for prompt in prompts:
        if prompt.cluster:
            clusters.setdefault(prompt.cluster, []).append(prompt)
        else:
            alone.append([prompt])
    chosen: set[str] = set()
    for unit in _spread([*alone, *clusters.values()], STRATA, seed):
        if chosen and len(chosen) + len(unit) > limit:
            break  # a smaller one instead would not be in the part of a larger limit
        chosen.update(prompt.id for prompt in unit)
    return tuple(prompt for prompt in prompts if prompt.id in chosen)


def _spread(
    units: Sequence[Unit], kinds: Sequence[str], seed: int, path: tuple[str, ...] = ()
) -> list[Unit]:
    """Order units of the groups in ``path`` so that every beginning has the groups' shares."""
    if not kinds:
        return sorted(units, key=lambda unit: _draw(seed, _name(unit)))
    groups: dict[str, list[Unit]] = {}
    for unit in units:
        groups.setdefault(_group(unit, kinds[0]), []).append(unit)
    sizes = {group: sum(map(len, members)) for group, members in groups.items()}
    starts = _group_starts(sizes, seed, path)
    places = []
    for group, members in groups.items():
        before = 0  # prompts of the group
        for unit in _spread(members, kinds[1:], seed, (*path, group)):
            # Evenly spaced places in [0, 1) for each group: a beginning of the merged order takes
            # from each as many as its share.
            place = (before + starts[group] * len(unit)) / sizes[group]
            places.append((place, _draw(seed, _name(unit)), unit))
            before += len(unit)
    return [unit for _, _, unit in sorted(places, key=lambda place: place[:2])]


def _name(unit: Unit) -> str:
    return unit[0].cluster or unit[0].id


def _group(unit: Unit, kind: str) -> str:
    """The group of a unit's prompts; for translations, for example, their languages combined."""
    return "+".join(sorted({prompt.groups.get(kind, "") for prompt in unit}))


def _group_starts(
    sizes: Mapping[str, int], seed: int, path: tuple[str, ...]
) -> dict[str, float]:
    """Where each group's first unit lies, in [0, 1) of the group's step.

    Each start is uniform over seeds. Groups of similar size, in random order, have starts that
    cover the step evenly (multiples of the golden ratio), so that a sample also takes its share of
    many small groups.
    """
    first = int.from_bytes(_draw(seed, json.dumps(path))[:7]) / 2**56
    order = sorted(
        sizes, key=lambda group: (sizes[group], _draw(seed, json.dumps([*path, group])))
    )
    return {group: (first + rank * _GOLDEN) % 1 for rank, group in enumerate(order)}


def _draw(seed: int, name: str) -> bytes:
    # A hash and no generator: a prompt's rank depends on its own name, whatever others there are.
    return hashlib.sha256(f"{seed}:{name}".encode()).digest()
