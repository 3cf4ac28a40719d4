"""The models that are measured, and how the gate would run them."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass, replace
from pathlib import Path

from refusal_checks.core.sampling import Sampling
from refusal_checks.core.settings import Limits
from refusal_checks.engines.engine import EngineSpec
from refusal_checks.engines.pool import PoolSettings
from refusal_checks.evaluation.assembly import convert
from refusal_checks.evaluation.config import JudgeConfig, NamedJudge
from refusal_checks.models import demo
from refusal_checks.models.names import CandidateModel, JudgeModel, Rule, Served
from refusal_checks.models.names import parse_candidate as candidate_of
from refusal_checks.models.names import parse_judge as judge_of
from tests import toy_model

TOY = "toy"
"""The value of ``--model`` that means the tests' toy, whatever the demo models are."""


@dataclass(frozen=True)
class Subject:
    """A candidate and its judge.

    Attributes:
        template: the judge's prompt; None for its own.
    """

    candidate: CandidateModel
    judge: JudgeModel
    template: str | None = None

    @classmethod
    def named(cls, model: str, judge: str) -> Subject:
        """The models of these names, ready to be loaded.

        Args:
            judge: empty for the judge that comes with the model.

        Raises:
            UserError: the model does not exist, or no engine can serve it.
        """
        if model == TOY:
            toy_model.use()
            model, judge = "demo:aligned", judge or "demo:judge"
        found = cls(candidate_of(model), judge_of(judge or demo.BUNDLED))
        if isinstance(found.judge, Rule):
            raise SystemExit(f"--judge {judge}: name a model: a rule takes no time")
        convert([found.candidate, found.judge], print)
        return found

    @property
    def is_shared(self) -> bool:
        """True if one engine serves both."""
        both = (self.candidate, self.judge)
        return (
            len({EngineSpec.of(each) for each in both if isinstance(each, Served)}) == 1
        )

    @property
    def engines(self) -> str:
        """For people: where candidate and judge run."""
        return "one engine" if self.is_shared else "an engine each"

    def apart(self) -> Subject:
        """The same models, each on an engine of its own."""
        if not self.is_shared or not isinstance(self.judge, Served):
            return self
        # vLLM's own default: it changes nothing but that the two are no longer the same engine.
        return replace(
            self, judge=replace(self.judge, args=(*self.judge.args, "--seed", "0"))
        )

    @property
    def judging(self) -> JudgeConfig:
        """The judge of a gate run."""
        return JudgeConfig((NamedJudge(self.judge.name, self.judge, self.template),))

    @property
    def pool(self) -> PoolSettings:
        """The engines of a gate run."""
        judging = self.judging
        limits, sampling = Limits(), Sampling()
        return PoolSettings(
            self.candidate, judging.models, limits, sampling, judging.sampling
        )


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options that name models."""
    parser.add_argument(
        "--model", default="demo:aligned", help="a folder, ORG/MODEL, demo:NAME, or toy"
    )
    parser.add_argument(
        "--judge", default="", help="likewise; default: the one bundled with it"
    )
    parser.add_argument(
        "--repeats", type=int, default=3, help="turns of each measurement"
    )


def mirror() -> Path | None:
    """The folder with public data, where there is one."""
    named = os.environ.get("REFUSAL_CHECKS_DATA")
    return Path(named) if named else None
