"""Attacks in run files: ``attacks = [...]``, or a table with the gates under each.

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
    """The attacks of all files."""

    files: Mapping[
        Path, Content
    ]  # their content, with a table for each benchmark under attack
    attacked: Attacked
    plain: Mapping[
        str, str
    ]  # the benchmark that is attacked, by name of the one under attack

    def stands_for_all(self, name: str) -> bool:
        """True if a table is of all attacks together."""
        return name in self.plain and name == name_of(self.plain[name], attacks.ALL)

    def shared(self, tables: Mapping[str, BenchmarkTable]) -> dict[str, BenchmarkTable]:
        """What files say besides gates; for a benchmark under attack, that of the plain one."""
        found = dict(tables)
        for name in self.plain.keys() & tables.keys():
            of_plain = tables[self.plain[name]].model_dump(
                include=set(FOR_ANY), exclude_unset=True
            )
            own = tables[name].model_dump(exclude_unset=True)
            found[name] = BenchmarkTable(**{**of_plain, **own})
        return found

    def metrics(
        self, path: Path, name: str, known: Sequence[str], verdicts: type[Valid]
    ) -> list[str]:
        """Those of a benchmark's metrics that a table can have gates on."""
        if name in self.plain and verdicts is Chosen:
            raise ThresholdError(
                f"{path}: [{self.plain[name]}] {KEY}: leave them out: its questions ask for one "
                "of several options, so there is no refusal that an attack could undo"
            )
        return [
            metric for metric in known if (metric == WORST) is self.stands_for_all(name)
        ]


def read(parsed: Mapping[Path, Content]) -> AttackTables:
    """Take the attacks out of the tables of run files, which are changed.

    Of several files all attacks count; ``prefill = false`` takes one out again.
    """
    found: dict[str, dict[str, bool]] = {}
    files: dict[Path, Content] = {path: {} for path in parsed}
    for path, content in parsed.items():
        for name, table, twice in _tables(path, content, found):
            if twice and (
                name in content or name in files[path]
            ):  # one would replace the other
                raise ThresholdError(twice)
            files[path][name] = table
    attacked = {
        plain: tuple(name for name, is_in in names.items() if is_in)
        for plain, names in found.items()
        if any(names.values())
    }
    plain_of = {
        name_of(plain, name): plain
        for plain, names in attacked.items()
        for name in (*names, attacks.ALL)
    }
    for plain, names in found.items():
        for path, content in files.items():
            for name in names:
                if name_of(plain, name) not in plain_of:
                    content.pop(name_of(plain, name), None)
            if plain not in attacked and name_of(plain, attacks.ALL) in content:
                raise ThresholdError(
                    f'{path}: [{plain}] {WORST}: say which attacks: {KEY} = ["prefill", "base64"]'
                )
    return AttackTables(files, attacked, plain_of)


def _tables(
    path: Path, content: Content, found: dict[str, dict[str, bool]]
) -> Iterator[tuple[str, Content, str]]:
    """The tables of one file, each benchmark's followed by those of it under attack.

    Each with what to say if the file has another of that name.
    """
    for name, table in content.items():
        where = f"{path}: [{name}]"
        listed = _listed(f"{where} {KEY}", table.pop(KEY, {}))
        worst = _pop_worst(table) | {
            key: listed.pop(key) for key in [WORST] if key in listed
        }
        yield name, table, ""
        for attack, gates in listed.items():
            if attack.startswith(
                recorded.PREFIX
            ):  # a file of texts, relative to this one
                try:
                    known = recorded.read(
                        path.parent / attack.removeprefix(recorded.PREFIX)
                    ).name
                except DataError as fault:
                    raise ThresholdError(f'{where} {KEY} "{attack}": {fault}') from None
            else:
                known = attacks.find(attack, f"{where} {KEY}", ThresholdError).name
            found.setdefault(name, {})[known] = gates is not False
            gates = _gates(f"{path}: [{name}.{KEY}]", attack, gates)
            yield name_of(name, known), gates, f"{where} {KEY}: name {known} once"
        if worst:
            found.setdefault(name, {})
            yield name_of(name, attacks.ALL), worst, f"{where}: name {WORST} once"


def _listed(where: str, value: Any) -> dict[str, Any]:
    """The attacks of a benchmark's table, each with its own table."""
    if isinstance(value, dict):
        return dict(value)
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ThresholdError(
            f'{where} = {value!r}: write a list of attacks, ["prefill", "base64"], or a table of '
            "their gates"
        )
    if twice := next((name for name in value if value.count(name) > 1), ""):
        raise ThresholdError(f"{where}: remove one: {twice} is there twice")
    return {name: {} for name in value}


def _gates(where: str, attack: str, value: Any) -> dict[str, Any]:
    """The table of one attack; empty for one that the file takes out."""
    if value is False:
        return {}
    if not isinstance(value, dict) or value.keys() & {"min", "max", *MARGINS}:
        given = value if isinstance(value, dict) else {"min": value}
        numbers = ((key, given.get(key)) for key in ("min", "max"))
        written = (
            f"{key} = {each}" for key, each in numbers if type(each) in (int, float)
        )
        raise ThresholdError(
            f"{where} {attack}: write {attack} = {{ rejection_rate = "
            f"{{ {', '.join(written) or 'min = 0.70'} }} }}, or {{}} for no gate of its own"
        )
    for key in value:
        if is_data(key, value[key]) and key not in FOR_ANY - {"sha256"}:
            raise ThresholdError(
                f"{where} {attack} {key}: write it into the table of the plain benchmark, whose "
                "data this is"
            )
    return value


def _pop_worst(table: Content) -> Content:
    """Take what a table says of the worst attack out of it: overall, and of groups."""
    worst: Content = {WORST: table.pop(WORST)} if WORST in table else {}
    for kind, groups in [item for item in table.items() if holds_groups(*item)]:
        of_worst = [name for name, gates in groups.items() if WORST in gates]
        if of_worst:
            worst[kind] = {name: {WORST: groups[name].pop(WORST)} for name in of_worst}
            table[kind] = {name: gates for name, gates in groups.items() if gates}
            if not table[kind]:
                del table[kind]
    return worst
