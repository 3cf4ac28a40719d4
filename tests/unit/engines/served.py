"""Models whose engines the tests place and start."""

from __future__ import annotations

from refusal_checks.models.spec import Served

ALIGNED = Served("demo:aligned", "model", (), {"persona": "aligned"})
JUDGE = Served("demo:judge", "model", (), {"persona": "judge"})
OTHER = Served("other", "other", ("--seed", "1"))
