"""The readers: how a model is asked about an exchange, and how its reply is read."""

from collections.abc import Callable, Mapping

from refusal_checks.core.errors import ModelError
from refusal_checks.judges import classifier, moderation, probability, text_replies
from refusal_checks.judges.judge import JudgeSetup
from refusal_checks.judges.model_judge import ModelJudge, Reading
from refusal_checks.judges.template import JudgePrompt

OF_PROMPTS: Mapping[str, Callable[[JudgeSetup, JudgePrompt, Reading], ModelJudge]] = {
    "json": text_replies.make_judge,
    "label": text_replies.make_judge,
    "pattern": text_replies.make_judge,
    "probability": probability.make_judge,
}
"""By what a judge prompt ``reads``."""

OF_ENDPOINTS: Mapping[str, Callable[[JudgeSetup, Reading], ModelJudge]] = {
    "classifier": classifier.make_judge,
    "moderation": moderation.make_judge,
}
"""Of models that take no judge prompt, by ``JudgeSetup.endpoint``."""


def make_judge(setup: JudgeSetup | None, reading: Reading) -> ModelJudge:
    """Make a judge that asks a model with the prompt that ``JudgeSetup.prompt`` chooses."""
    if setup is None:
        raise ModelError(
            "name a model with --judge: this benchmark needs a judge that is a model"
        )
    if setup.endpoint:
        return OF_ENDPOINTS[setup.endpoint](setup, reading)
    prompt = setup.prompt(reading.prompt).with_rubric(setup.category_guide)
    return OF_PROMPTS[prompt.metadata.reads](setup, prompt, reading)
