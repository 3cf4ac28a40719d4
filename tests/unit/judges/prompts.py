"""What reads the outputs that the package's judge prompts of refusal and harm ask for."""

from collections.abc import Callable, Mapping

from refusal_checks.core.verdicts import Judgement
from refusal_checks.judges import template
from refusal_checks.judges.kinds.refusal import READING


def parser(name: str) -> Callable[[str], Judgement]:
    """Reads outputs as a prompt's head says; ``name`` is the prompt's, or a file."""
    parse, _ = READING.of(template.load(name))
    return parse


PARSERS: Mapping[str, Callable[[str], Judgement]] = {
    name: parser(name)
    for name, head in template.heads().items()
    if head.reads in ("label", "pattern") and head.measures in ("refusal", "harm")
}
"""By name of the prompt."""
