"""How vLLM's own arguments spread an engine over devices and machines."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from refusal_checks.core.errors import UserError

_FLAGS = {
    "tensor": ("--tensor-parallel-size", "-tp"),
    "pipeline": ("--pipeline-parallel-size", "-pp"),
    "context": ("--prefill-context-parallel-size", "-pcp"),
    "data": ("--data-parallel-size", "-dp"),
    "local": ("--data-parallel-size-local", "-dpl"),
    "nodes": ("--nnodes", "-n"),
    "executor": ("--distributed-executor-backend",),
    "data_backend": ("--data-parallel-backend", "-dpb"),
    "data_address": ("--data-parallel-address", "-dpa"),
    "memory": ("--gpu-memory-utilization",),
    "sequences": ("--max-num-seqs",),
}
"""vLLM's names of the arguments that matter here."""


@dataclass(frozen=True)
class Parallel:
    """What an engine's arguments say of devices.

    Attributes:
        shards: devices that one copy of the model is cut over; copies: of the model on this
            machine; both 1 unless the arguments say otherwise.
        is_given: whether they say anything of that.
        is_elsewhere: whether Ray, or several machines, decide where it runs.
        executor: the named executor; empty where vLLM chooses.
        memory: the named share of a device's memory; None where none is.
        sequences: the named number of sequences that one copy runs at one time; 0 where none is.
    """

    shards: int = 1
    copies: int = 1
    is_given: bool = False
    is_elsewhere: bool = False
    executor: str = ""
    memory: float | None = None
    sequences: int = 0

    @classmethod
    def of(cls, args: Sequence[str]) -> Parallel:
        """Read arguments; what vLLM would refuse counts as not given, since vLLM says so best."""
        found = vars(_parser().parse_known_args([_dashed(arg) for arg in args])[0])
        counts = {name: _count(found[name]) for name in ("tensor", "pipeline", "context", "data")}
        return cls(
            shards=counts["tensor"] * counts["pipeline"] * counts["context"],
            copies=_count(found["local"]) if found["local"] else counts["data"],
            is_given=any(found[name] is not None for name in (*counts, "local")),
            is_elsewhere=_count(found["nodes"]) > 1
            or "ray" in (found["executor"], found["data_backend"])
            or found["data_address"] is not None,
            executor=found["executor"] or "",
            memory=_share(found["memory"]),
            sequences=_count(found["sequences"]) if found["sequences"] else 0,
        )

    @property
    def ranks(self) -> int:
        """Devices that it needs on this machine."""
        return self.shards * self.copies


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UserError(f"vLLM's arguments: {message}")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(add_help=False, allow_abbrev=False)
    for name, flags in _FLAGS.items():
        parser.add_argument(*flags, dest=name)
    return parser


def _dashed(arg: str) -> str:
    """vLLM takes underscores in a flag's name for dashes."""
    return re.sub(r"^--[^=]*", lambda flag: flag[0].replace("_", "-"), arg)


def _count(text: str | None) -> int:
    return int(text) if text and text.isdecimal() and int(text) else 1


def _share(text: str | None) -> float | None:
    try:
        share = float(text or "")
    except ValueError:
        return None
    return share if 0 < share <= 1 else None
