"""Which engine is chosen."""

from __future__ import annotations

import pytest

from refusal_checks.core.errors import UserError
from refusal_checks.engines import kinds


def installed(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    for name in kinds.names():
        kind = type(kinds.get(name))
        monkeypatch.setattr(kind, "is_installed", lambda self, there=name in names: there)


@pytest.mark.parametrize(
    ("there", "chosen"),
    [
        (("transformers", "vllm"), "vllm"),
        (("transformers",), "transformers"),
        ((), "vllm"),
    ],
)
def test_auto_prefers_vllm(
    monkeypatch: pytest.MonkeyPatch, there: tuple[str, ...], chosen: str
) -> None:
    installed(monkeypatch, *there)
    assert kinds.choose("auto") == chosen
    assert kinds.choose("transformers") == "transformers"


def test_an_unknown_engine_names_the_nearest() -> None:
    with pytest.raises(UserError, match='no engine "transformer"; did you mean "transformers"'):
        kinds.choose("transformer")


def test_every_kind_is_complete() -> None:
    assert kinds.names()[0] == kinds.PREFERRED
    for name in kinds.names():
        engine = kinds.get(name)
        assert engine.title
        assert engine.modules
        assert engine.remedy.startswith(('pip install "refusal-checks[', "`make engine`"))
        assert engine.health.startswith("/")
