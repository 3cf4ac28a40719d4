"""``store.only``: a run decides by what is stored, and asks no server."""

from tests.run.test_rating import by_step, rated
from tests.support.fake_server import FakeServer
from tests.support.project import Outcome, Project


def figures(found: Outcome) -> dict[str, tuple[float, int]]:
    """Figure and prompts of each gate."""
    estimates = {
        gate: verdict.estimate for gate, verdict in found.result.verdicts.items()
    }
    return {gate: (each.value, each.n) for gate, each in estimates.items()}


def test_what_is_stored_decides_as_it_did(project: Project) -> None:
    live = project.evaluate()
    asked = len(project.server.requests)
    found = project.evaluate(store_only=True)
    assert found.counts == {"passed": 3}
    assert figures(found) == figures(live)
    assert len(project.server.requests) == asked


def test_label_probabilities_are_found_without_a_tokenizer(project: Project) -> None:
    with FakeServer(tokens=by_step, tokenizer=False) as server:
        live = rated(project, server)
        asked = len(server.requests)
        assert figures(rated(project, server, store_only=True)) == figures(live)
        assert len(server.requests) == asked


def test_what_is_not_stored_is_invalid(project: Project) -> None:
    found = project.evaluate(store_only=True)
    assert found.counts == {"error": 3}
    found.says("not stored, and no server is asked")
    assert not project.server.requests


def test_a_server_without_a_model_s_name_is_refused(project: Project) -> None:
    project.refuses(
        "candidate.model http://*: add #MODEL; store.only asks no server",
        candidate_model=project.server.url,
        store_only=True,
    )
