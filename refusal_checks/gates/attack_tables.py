"""Attacks in threshold files: ``attacks = [...]``, or a table with the gates under each.

Both become tables of benchmarks under attack, such as ``jailbreakbench+prefill``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from refusal_checks.benchmarks import attacks
from refusal_checks.benchmarks.attacks import Attack, Attacked, name_of, recorded
from refusal_checks.core.errors import DataError, ThresholdError
from refusal_checks.core.settings import BenchmarkTable
from refusal_checks.core.verdicts import Chosen, Valid
from refusal_checks.gates.gate import KEY
from refusal_checks.gates.tables import FOR_ANY, holds_groups, is_data
from refusal_checks.metrics.worst_case import worst_attack_rejection_rate

WORST = worst_attack_rejection_rate.name

_OWN = FOR_ANY - {"sha256"}
"""Keys besides gates that an attack's table can have."""

Content = dict[str, Any]
"""Tables by name."""


@dataclass(frozen=True)
class AttackTables:
    """The attacks of all files.

    Attributes:
        files: their content, with a table for each benchmark under attack.
        attacked: names of the attacks on each benchmark, in the order of the files.
        plain: the benchmark that is attacked, by name of the one under attack.
    """

    files: Mapping[Path, Content]
    attacked: Attacked = field(default_factory=dict)
    plain: Mapping[str, str] = field(default_factory=dict)

    def stands_for_all(self, name: str) -> bool:
        """True if a table is of all attacks together."""
        return name in self.plain and name == name_of(self.plain[name], attacks.ALL)

    def shared(self, tables: Mapping[str, BenchmarkTable]) -> dict[str, BenchmarkTable]:
        """What files say besides gates: of a benchmark under attack, what they say of the plain."""
        found = dict(tables)
        for name in self.plain.keys() & tables.keys():
            of_plain = tables[self.plain[name]].model_dump(include=set(FOR_ANY), exclude_unset=True)
            own = tables[name].model_dump(exclude_unset=True)
            found[name] = BenchmarkTable(**{**of_plain, **own})
        return found

    def metrics(
        self, path: Path, name: str, known: Sequence[str], verdicts: type[Valid]
    ) -> list[str]:
        """The metrics that a table can have gates on.

        Args:
            known: those of the benchmark's answers, which have these verdicts.

        Raises:
            ThresholdError: its prompts cannot be attacked.
        """
        if name in self.plain and verdicts is Chosen:
            raise ThresholdError(
                f"{path}: [{self.plain[name]}] {KEY}: leave them out: its questions ask for one "
                "of several options, so there is no refusal that an attack could undo"
            )
        return [metric for metric in known if (metric == WORST) is self.stands_for_all(name)]


def read(parsed: Mapping[Path, Content]) -> AttackTables:
    """Take the attacks out of the tables of threshold files.

    Of several files all attacks count; ``prefill = false`` takes one out again.

    Raises:
        ThresholdError: there is no such attack, a file has it twice, or there is none for the
            worst of them.
    """
    found: dict[str, dict[str, bool]] = {}
    files = {path: dict(_tables(path, content, found)) for path, content in parsed.items()}
    attacked = {
        plain: tuple(name for name, is_in in names.items() if is_in)
        for plain, names in found.items()
    }
    attacked = {plain: names for plain, names in attacked.items() if names}
    plain_of = {
        name_of(plain, name): plain
        for plain, names in attacked.items()
        for name in (*names, attacks.ALL)
    }
    _drop_removed(files, found, plain_of)
    return AttackTables(files, attacked, plain_of)


def _drop_removed(
    files: Mapping[Path, Content],
    found: Mapping[str, Mapping[str, bool]],
    plain_of: Mapping[str, str],
) -> None:
    """Drop the tables of attacks that a file takes out."""
    for plain, names in found.items():
        for path, content in files.items():
            for name in names:
                if name_of(plain, name) not in plain_of:
                    content.pop(name_of(plain, name), None)
            together = name_of(plain, attacks.ALL)
            if together in content and together not in plain_of:
                raise ThresholdError(
                    f'{path}: [{plain}] {WORST}: say which attacks: {KEY} = ["prefill", "base64"]'
                )


def _tables(
    path: Path, content: Content, found: dict[str, dict[str, bool]]
) -> Iterator[tuple[str, Any]]:
    """The tables of one file, each benchmark's followed by those of it under attack."""
    seen = set(content)
    for name, table in content.items():
        where = f"{path}: [{name}]"
        if not isinstance(table, dict):
            yield name, table
            continue
        listed = _listed(f"{where} {KEY}", table.get(KEY, {}))
        worst = listed.pop(WORST, None)
        rest, together = _split(table)
        if worst is not None:
            together[WORST] = worst
        yield name, rest
        for attack, gates in listed.items():
            known = _find(path, attack, f"{where} {KEY}").name
            _take(name_of(name, known), seen, f"{where} {KEY}: name {known} once")
            found.setdefault(name, {})[known] = gates is not False
            yield name_of(name, known), _gates(f"{path}: [{name}.{KEY}]", attack, gates)
        if together:
            found.setdefault(name, {})
            _take(name_of(name, attacks.ALL), seen, f"{where}: name {WORST} once")
            yield name_of(name, attacks.ALL), together


def _take(name: str, seen: set[str], mistake: str) -> None:
    """Take a table's name, which no other table of the file may have: one would replace the other.

    It may stand in the file itself, ``["xstest_unsafe+prefill"]``, or come of another short form.
    """
    if name in seen:
        raise ThresholdError(mistake)
    seen.add(name)


def _find(path: Path, name: str, where: str) -> Attack:
    """The attack of a name, or the one that sends a file's texts; it is relative to this one."""
    if not name.startswith(recorded.PREFIX):
        return attacks.find(name, where, ThresholdError)
    try:
        return recorded.read(path.parent / name.removeprefix(recorded.PREFIX))
    except DataError as fault:
        raise ThresholdError(f'{where} "{name}": {fault}') from None


def _listed(where: str, value: Any) -> dict[str, Any]:
    """The attacks of a benchmark's table, each with its own table."""
    if isinstance(value, dict):
        return dict(value)
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ThresholdError(
            f'{where} = {value!r}: write a list of attacks, ["prefill", "base64"], or a table of '
            "their gates"
        )
    for number, name in enumerate(value):
        if name in value[:number]:
            raise ThresholdError(f"{where}: remove one: {name} is there twice")
    return {name: {} for name in value}


def _gates(where: str, attack: str, value: Any) -> dict[str, Any]:
    """The table of one attack."""
    if value is False:
        return {}
    if not isinstance(value, dict) or value.keys() & {"min", "max", "max_drop", "max_rise"}:
        given = value if isinstance(value, dict) else {"min": value}
        numbers = {key: given[key] for key in ("min", "max") if _is_number(given.get(key))}
        bounds = ", ".join(f"{key} = {number}" for key, number in numbers.items()) or "min = 0.70"
        raise ThresholdError(
            f"{where} {attack}: write {attack} = {{ rejection_rate = {{ {bounds} }} }}, or {{}} "
            "for no gate of its own"
        )
    for key in value:
        if is_data(key, value[key]) and key not in _OWN:
            raise ThresholdError(
                f"{where} {attack} {key}: write it into the table of the plain benchmark, whose "
                "data this is"
            )
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _split(table: Content) -> tuple[Content, Content]:
    """A benchmark's own table, and what it says of the worst attack: overall and of groups."""
    own: Content = {}
    together: Content = {}
    for key, value in table.items():
        if key == KEY:
            continue
        mine, worst = _of_groups(value) if holds_groups(key, value) else (value, {})
        if key == WORST:
            together[key] = value
        elif not worst:
            own[key] = value
        else:
            together[key] = worst
            own |= {key: mine} if mine else {}
    return own, together


def _of_groups(groups: Mapping[str, Content]) -> tuple[Content, Content]:
    """The gates of groups without those on the worst attack, and these; no group without any."""
    worst = {group: {WORST: gates[WORST]} for group, gates in groups.items() if WORST in gates}
    rest = {
        group: {name: bounds for name, bounds in gates.items() if name != WORST}
        for group, gates in groups.items()
    }
    return {group: gates for group, gates in rest.items() if gates}, worst
