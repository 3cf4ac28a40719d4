"""Attacks in run files: ``attacks = [...]``, or a table of gates for each attack.

Both become tables of benchmarks under attack, such as ``jailbreakbench+prefill``.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refusal_checks.benchmarks import attacks
from refusal_checks.benchmarks.attacks import Attacked, name_of, recorded
from refusal_checks.core.errors import DataError, ThresholdError
from refusal_checks.core.settings import BenchmarkTable
from refusal_checks.core.verdicts import Chosen, Valid
from refusal_checks.gates.gate import KEY
from refusal_checks.gates.tables import FOR_ANY, MARGINS, holds_groups, is_data
from refusal_checks.metrics.worst_case import worst_attack_rejection_rate

WORST = worst_attack_rejection_rate.name

Content = dict[str, Any]  # tables by name


@dataclass(frozen=True)
class AttackTables:
    """The attacks of all files.

    Attributes:
        files: content of the run files, with a table for each benchmark under attack.
        plain: the plain benchmark, by the name of the one under attack.
    """

    files: Mapping[Path, Content]
    attacked: Attacked
    plain: Mapping[str, str]

    def stands_for_all(self, name: str) -> bool:
        """True if a table's figures are over all attacks together."""
        return name in self.plain and name == name_of(self.plain[name], attacks.ALL)

    def shared(self, tables: Mapping[str, BenchmarkTable]) -> dict[str, BenchmarkTable]:
        """The keys besides gates; a benchmark under attack takes those of the plain one."""
        merged = dict(tables)
        for name in self.plain.keys() & tables.keys():
            plain = tables[self.plain[name]]
            shared = plain.model_dump(include=set(FOR_ANY), exclude_unset=True)
            own = tables[name].model_dump(exclude_unset=True)
            merged[name] = BenchmarkTable(**{**shared, **own})
        return merged

    def metrics(
        self, path: Path, name: str, metrics: Sequence[str], verdicts: type[Valid]
    ) -> list[str]:
        """The metrics of a benchmark that a table can have gates on."""
        if name in self.plain and verdicts is Chosen:
            raise ThresholdError(
                f"{path}: [{self.plain[name]}] {KEY}: leave them out: its questions ask for one "
                "of several options, so there is no refusal that an attack could undo"
            )
        is_of_all = self.stands_for_all(name)
        return [metric for metric in metrics if (metric == WORST) is is_of_all]


def read(parsed: Mapping[Path, Content]) -> AttackTables:
    """Take the attacks out of the tables of run files; changes ``files``.

    Attacks of all files count; ``prefill = false`` removes one again.
    """
    named: dict[
        str, dict[str, bool]
    ] = {}  # attacks on each benchmark; False takes one out
    files: dict[Path, Content] = {path: {} for path in parsed}
    for path, content in parsed.items():
        for name, table, twice in _tables(path, content, named):
            # One would replace the other.
            if twice and (name in content or name in files[path]):
                raise ThresholdError(twice)
            files[path][name] = table
    attacked: dict[str, tuple[str, ...]] = {}
    plain_of: dict[str, str] = {}
    for plain, is_kept in named.items():
        kept = tuple(attack for attack in is_kept if is_kept[attack])
        if kept:
            attacked[plain] = kept
            for attack in (*kept, attacks.ALL):
                plain_of[name_of(plain, attack)] = plain
    for plain, is_kept in named.items():
        for path, content in files.items():
            for attack in is_kept:
                if name_of(plain, attack) not in plain_of:
                    content.pop(name_of(plain, attack), None)
            if plain not in attacked and name_of(plain, attacks.ALL) in content:
                raise ThresholdError(
                    f'{path}: [{plain}] {WORST}: say which attacks: {KEY} = ["prefill", "base64"]'
                )
    return AttackTables(files, attacked, plain_of)


def _tables(
    path: Path, content: Content, named: dict[str, dict[str, bool]]
) -> Iterator[tuple[str, Content, str]]:
    """The tables of one file, each followed by those of the same benchmark under attack.

    Each comes with what to say if the file has another table of that name. Adds the attacks to
    ``named``.
    """
    for benchmark, table in content.items():
        where = f"{path}: [{benchmark}]"
        listed = _listed(f"{where} {KEY}", table.pop(KEY, {}))
        worst = _pop_worst(table)
        if WORST in listed:
            worst[WORST] = listed.pop(WORST)
        yield benchmark, table, ""
        for written, gates in listed.items():
            name = _attack_name(path, where, written)
            named.setdefault(benchmark, {})[name] = gates is not False
            own = _gates(f"{path}: [{benchmark}.{KEY}]", written, gates)
            yield name_of(benchmark, name), own, f"{where} {KEY}: name {name} once"
        if worst:
            named.setdefault(benchmark, {})
            of_all = name_of(benchmark, attacks.ALL)
            yield of_all, worst, f"{where}: name {WORST} once"


def _attack_name(path: Path, where: str, written: str) -> str:
    """The name of an attack as a file writes it, possibly a file of recorded texts."""
    if not written.startswith(recorded.PREFIX):
        return attacks.find(written, f"{where} {KEY}", ThresholdError).name
    file = path.parent / written.removeprefix(recorded.PREFIX)
    try:
        return recorded.read(file).name
    except DataError as fault:
        raise ThresholdError(f'{where} {KEY} "{written}": {fault}') from None


def _listed(where: str, value: Any) -> dict[str, Any]:
    """The attacks in a benchmark's table, each with its own table."""
    if isinstance(value, dict):
        return dict(value)
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ThresholdError(
            f'{where} = {value!r}: write a list of attacks, ["prefill", "base64"], or a table of '
            "their gates"
        )
    for name in value:
        if value.count(name) > 1:
            raise ThresholdError(f"{where}: remove one: {name} is there twice")
    return {name: {} for name in value}


def _gates(where: str, attack: str, value: Any) -> dict[str, Any]:
    """The table of one attack; empty for an attack that the file removes."""
    if value is False:
        return {}
    if not isinstance(value, dict) or value.keys() & {"min", "max", *MARGINS}:
        given = value if isinstance(value, dict) else {"min": value}
        bounds = []
        for key in ("min", "max"):
            if type(given.get(key)) in (int, float):
                bounds.append(f"{key} = {given[key]}")
        raise ThresholdError(
            f"{where} {attack}: write {attack} = {{ rejection_rate = "
            f"{{ {', '.join(bounds) or 'min = 0.70'} }} }}, or {{}} for no gate of its own"
        )
    for key in value:
        if is_data(key, value[key]) and key not in FOR_ANY - {"sha256"}:
            raise ThresholdError(
                f"{where} {attack} {key}: write it into the table of the plain benchmark, whose "
                "data this is"
            )
    return value


def _pop_worst(table: Content) -> Content:
    """Take what a table says about the worst attack out of it, both overall and for groups."""
    worst: Content = {}
    if WORST in table:
        worst[WORST] = table.pop(WORST)
    kinds = [key for key, value in table.items() if holds_groups(key, value)]
    for kind in kinds:
        groups = table[kind]
        named = [group for group, gates in groups.items() if WORST in gates]
        if not named:
            continue
        worst[kind] = {group: {WORST: groups[group].pop(WORST)} for group in named}
        table[kind] = {group: gates for group, gates in groups.items() if gates}
        if not table[kind]:
            del table[kind]
    return worst
