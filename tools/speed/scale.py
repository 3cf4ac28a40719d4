"""A release train on paper: ``python -m tools.speed.scale`` prints the tables of ``scale.md``.

No engine runs. Tokens follow from lengths, hours from published speeds of vLLM, dollars from the
price that the same source used. Other lengths, other speeds and other machines are options.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from string import ascii_uppercase
from typing import get_args

from tools.speed.published import KNOWN, PRICES, Published
from tools.speed.train import Lengths, Machine, Rationales, Train

MACHINES = (
    "1 8b 8b shared",
    "8 8b 8b shared",
    "8 8b 8b split",
    "8 70b-fp8 8b shared",
    "8 70b-fp8 8b split",
    "8 70b-fp8 70b-fp8 shared",
)
"""GPUs, candidate, judge, and whether each model has GPUs of its own."""


def main(words: Sequence[str] | None = None) -> None:
    """Parse the command line, and print."""
    parser = _parser()
    given = parser.parse_args(words)
    try:
        known = KNOWN | dict(map(_measured, given.measured))
    except ValueError as fault:
        parser.error(f"--measured: {fault}")
    try:
        machines = [_machine(text, known) for text in given.machine or MACHINES]
    except (ValueError, KeyError) as fault:
        parser.error(f"--machine: {fault}")
    train = Train(
        given.checkpoints,
        given.prompts,
        given.samples,
        Lengths(prompt=given.prompt_tokens, answer=given.answer_tokens),
        shown=given.shown,
        repeated=given.repeated,
        judged=given.judged,
        cache=not given.no_cache,
    )
    parts = (
        _speeds(known.values()),
        _tokens(train),
        _hours(machines, train),
        _what_if(machines, train),
    )
    print("\n\n".join("\n".join(part) for part in parts))
    prices = ", ".join(f"{gpus}: {price.dollars:.2f}" for gpus, price in PRICES.items())
    print(f"\ndollars an hour for each GPU, by the machine's GPUs: {prices}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.speed.scale", description=__doc__
    )
    usual = Train()
    add = parser.add_argument
    add("--checkpoints", type=_count, default=usual.checkpoints)
    add("--prompts", type=_count, default=usual.prompts)
    add("--samples", type=_count, default=usual.samples, help="answers to a prompt, K")
    add("--prompt-tokens", type=_count, default=usual.lengths.prompt)
    add("--answer-tokens", type=_count, default=usual.lengths.answer, help="on average")
    add(
        "--shown",
        type=_count,
        default=usual.shown,
        help="rationales with rationales=offenders",
    )
    add(
        "--repeated",
        type=_share,
        default=0.0,
        help="share of verdicts that are stored already",
    )
    add(
        "--judged",
        type=_share,
        default=1.0,
        help="share of answers that the model judges",
    )
    add("--no-cache", action="store_true", help="an engine without a prefix cache")
    add(
        "--measured",
        action="append",
        default=[],
        metavar="NAME:GPUS:IN/OUT=RATE,...",
        help="your own speeds: requests a second at three lengths or more, on the GPUs of one copy",
    )
    add(
        "--machine",
        action="append",
        metavar="'GPUS CANDIDATE JUDGE shared|split'",
        help=f"models: {', '.join(KNOWN)}, or a NAME of --measured; default: those of the page",
    )
    return parser


def _count(text: str) -> int:
    if (count := int(text)) < 1:
        raise ValueError
    return count


def _share(text: str) -> float:
    if not 0 <= (share := float(text)) <= 1:
        raise ValueError
    return share


def _measured(text: str) -> tuple[str, Published]:
    name, gpus, rates = text.split(":")
    pairs = [pair.split("=") for pair in rates.split(",")]
    lengths = [tuple(map(int, length.split("/"))) for length, _ in pairs]
    found = {
        (read, out): float(rate)
        for (read, out), (_, rate) in zip(lengths, pairs, strict=True)
    }
    if len(found) < 3:
        raise ValueError(
            f"{text}: three lengths are needed, as three costs follow from them"
        )
    return name, Published(name, int(gpus), found, "--measured")


def _machine(text: str, known: dict[str, Published]) -> Machine:
    gpus, candidate, judge, placed = text.split()
    if placed not in ("shared", "split"):
        raise ValueError(f"{text}: write shared or split at its end")
    machine = Machine(
        int(gpus),
        known[candidate],
        known[judge],
        "split" if placed == "split" else "shared",
    )
    machine.hours(Train())
    return machine


def _row(*cells: object) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    yield _row(*head)
    yield "|" + "---|" * len(head)
    yield from (_row(*row) for row in rows)


def _speeds(known: Iterable[Published]) -> Iterator[str]:
    head = (
        "a copy of",
        "GPUs",
        "a token read, µs",
        "written, µs",
        "and for each 1,000 before it",
        "errors",
    )
    rows = []
    for each in known:
        read, written, back = (value * 1e6 for value in each.costs())
        errors = each.errors().values()
        shown = f"{min(errors):+.0%} to {max(errors):+.0%}"
        rows.append(
            (
                each.model,
                each.gpus,
                f"{read:.1f}",
                f"{written:.0f}",
                f"{1000 * back:.0f}",
                shown,
            )
        )
    return _table(head, rows)


def _tokens(train: Train) -> Iterator[str]:
    rows = []
    for rationales in get_args(Rationales):
        each = replace(train, rationales=rationales)
        one, verdicts = each.tokens, sum(each.asked.values())
        cells = (f"{count * train.checkpoints / 1e6:,.1f}" for count in one)
        share = f"{one.judge_cached / one.judge_in:.0%}" if one.judge_in else "-"
        rows.append(
            (
                f"`{rationales}`",
                *cells,
                share,
                f"{one.judge_out / verdicts:.1f}" if verdicts else "-",
            )
        )
    head = (
        "`judge.rationales`",
        "candidate in",
        "candidate out",
        "judge in",
        "of it cached",
        "judge out",
    )
    return _table((*head, "cached", "written a verdict"), rows)


def _hours(machines: Iterable[Machine], train: Train) -> Iterator[str]:
    short = replace(train, rationales="offenders")
    rows = []
    for letter, each in zip(ascii_uppercase, machines, strict=False):
        parts = (train.answering(each.candidate), train.judging(each.judge))
        busy = " + ".join(f"{train.checkpoints * part / 3600:.1f}" for part in parts)
        costs = (
            f"{each.hours(way):.1f} ({each.dollars(way):,.0f})"
            for way in (train, short)
        )
        models = (each.candidate.model, each.judge.model)
        rows.append((letter, each.gpus, *models, each.placed, busy, *costs))
    head = (
        "",
        "H100s",
        "candidate",
        "judge",
        "GPUs",
        "hours of one copy: answers + verdicts",
    )
    return _table((*head, "`all`: hours ($)", "`offenders`: hours ($)"), rows)


def _what_if(machines: Sequence[Machine], train: Train) -> Iterator[str]:
    lengths = train.lengths
    ways = {
        "as above": train,
        "`judge.rationales=offenders`": replace(train, rationales="offenders"),
        "no prefix cache": replace(train, cache=False),
        "a quarter of the verdicts stored": replace(train, repeated=0.25),
        "`bundled` first, and a quarter of the answers to the model": replace(
            train, judged=0.25
        ),
        "`--samples 1`": replace(train, samples=1),
        "answers of 1,024 tokens": replace(
            train, lengths=replace(lengths, answer=1024)
        ),
        "`--stop-early`, half of the prompts": replace(
            train, prompts=train.prompts // 2
        ),
    }
    rows = [
        (what, *(f"{each.hours(way):.1f}" for each in machines))
        for what, way in ways.items()
    ]
    return _table(("hours", *ascii_uppercase[: len(machines)]), rows)


if __name__ == "__main__":
    main()
