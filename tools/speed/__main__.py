"""Measure the gate against its floors in one run, and print the tables of the page on speed.

(a) vLLM offline on the same requests; (b) the same requests to the server from a client that does
nothing else; (c) the gate; (d) the same requests in batches with barriers; (e) the loop of
LLM-Refusal-Evaluation on the same prompts.
"""

from __future__ import annotations

import argparse

from tools.speed import overhead, simulated, subject, two_engines, workload
from tools.speed.circumstances import circumstances
from tools.speed.one_engine import START, OneEngine, Works, alone
from tools.speed.original import CHARACTERS, Original
from tools.speed.subject import TOY, Subject
from tools.speed.table import Ratio, ratios, seconds
from tools.speed.turns import say
from tools.speed.workload import Lengths

USUAL = ("even", "mixed", "original", "verdicts", "two")
FURTHER = ("simulated", "overhead")


def main() -> None:
    """Parse the command line, then measure."""
    given = _parser().parse_args()
    facts, found = circumstances("tools.speed"), list[Ratio]()
    wanted = set(given.parts)
    models = Subject.named(given.model, given.judge) if wanted & set(USUAL) else None
    shown: dict[str, list[float]] = {}
    if models:
        facts.append(
            f"- candidate {given.model}, judge {models.judge.name}: {models.engines}"
        )
        if wanted & {"even", "mixed", "original"}:
            one = _one_engine(models, given)
            found += one.ratios()
            shown = dict(one.turns.named(START, "loads of"))
            facts += [f"- {work.line}" for work in one.works.all]
        if "two" in wanted:
            found += two_engines.measure(
                models, _mixed(given, given.mixed), given.repeats
            )
    if "simulated" in wanted:
        for spread in (0.9, 1.3):
            found += simulated.measure(spread, given.repeats)
    say("\n".join(["", *facts, "", ratios(found)]))
    if shown:
        say("\n" + seconds(shown, "seconds, or verdicts a second"))
    if "overhead" in wanted:
        say("\n" + overhead.measure(given.records // 5, 5).line)


def _one_engine(models: Subject, given: argparse.Namespace) -> OneEngine:
    """The measurements on one engine, done."""
    parts, mirror = set(given.parts), subject.mirror()
    works = Works(
        workload.even(given.prompts, given.samples, given.tokens, mirror)
        if "even" in parts
        else None,
        _mixed(given, given.mixed) if "mixed" in parts else None,
        _mixed(given, given.original, "original") if "original" in parts else None,
        "verdicts" in parts,
    )
    short = given.model == TOY and given.instructions == CHARACTERS
    characters = CHARACTERS // 4 if short else given.instructions
    loop = Original(models, alone(models), characters, not given.no_reuse)
    one = OneEngine(models, works, loop)
    for number in range(given.repeats):
        say(f"turn {number + 1} of {given.repeats}")
        one.turn()
    return one


def _mixed(
    given: argparse.Namespace, prompts: int, name: str = "mixed"
) -> workload.Workload:
    lengths = Lengths(given.median, given.spread, given.most)
    return workload.mixed(prompts, given.answers, lengths, name)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.speed",
        description=__doc__,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    subject.add(parser)
    add = parser.add_argument
    add(
        "--parts",
        nargs="+",
        choices=(*USUAL, *FURTHER),
        default=USUAL,
        help="what is measured",
    )
    add("--prompts", type=int, default=40, help="of the even work")
    add("--samples", type=int, default=2, help="K of the even work")
    add("--tokens", type=int, default=128, help="most of an answer of the even work")
    add("--mixed", type=int, default=4, help="prompts of each of the four benchmarks")
    add(
        "--original",
        type=int,
        default=1,
        help="likewise, for (e) and the (c) beside it",
    )
    add("--answers", type=int, default=5, help="K of the mixed work")
    add("--median", type=int, default=48, help="tokens of its answers")
    add("--spread", type=float, default=0.9, help="of the logarithm of their number")
    add("--most", type=int, default=1024, help="tokens of any of its answers")
    add(
        "--instructions",
        type=int,
        default=CHARACTERS,
        help="characters of (e)'s judge prompt",
    )
    add(
        "--no-reuse",
        action="store_true",
        help="(e)'s judge without its prefix cache, slower",
    )
    add("--records", type=int, default=125_000, help="of the part overhead")
    return parser


if __name__ == "__main__":
    main()
