"""``store.only``: a run decides by what is stored, and asks no server."""

from tests.run.test_rating import by_step, rated
from tests.support.fake_server import FakeServer
from tests.support.project import Project


def test_label_probabilities_are_found_without_a_tokenizer(project: Project) -> None:
    with FakeServer(tokens=by_step, tokenizer=False) as server:
        live = rated(project, server)
        asked = len(server.requests)
        stored = rated(project, server, store_only=True)
        assert stored.result.figures == live.result.figures
        assert len(server.requests) == asked


def test_what_is_not_stored_is_invalid(project: Project) -> None:
    found = project.evaluate(store_only=True)
    assert found.counts == {"error": 3}
    found.says("not stored, and no server is asked")
    assert not project.server.requests


def test_a_server_without_a_model_s_name_is_refused(project: Project) -> None:
    project.refuses(
        "candidate.model http://*: add #MODEL to the URL: with store.only, no server",
        candidate_model=project.server.url,
        store_only=True,
    )
