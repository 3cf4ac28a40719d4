"""Benchmarks: which there are, what their data must be, and the mirror it comes from."""

import csv
import hashlib
from collections import Counter
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from refusal_checks.benchmarks import (
    Benchmark,
    digest,
    discover,
    display_order,
    load_prompts,
)
from refusal_checks.benchmarks.pinned import (
    MIRROR_VARIABLE,
    PinnedFile,
    fetch,
    mirror_folder,
)
from refusal_checks.core.errors import DataError
from refusal_checks.core.prompts import Kind, Message, Prompt
from tests.support.tables import put

A = Prompt.single("p1", "a", category="x")
B = Prompt.single("p2", "b")


def bench(*prompts: Prompt) -> Benchmark:
    return Benchmark("bench", Kind.SAFETY, "a test", lambda mirror: prompts, "none")


def pinned(text: str) -> PinnedFile:
    digest = hashlib.sha256(text.encode()).hexdigest()
    return PinnedFile(
        "set/prompts.csv", "https://example.org/prompts.csv", "abc123", digest
    )


def test_groups_come_in_their_suite_s_order_and_others_as_they_are() -> None:
    groups = ["other", "LLMRewriting", "another", "SocialBias"]
    ordered = ["SocialBias", "LLMRewriting", "other", "another"]
    assert display_order("cfsafety", groups) == ordered
    assert display_order("mine", groups) == groups


def test_xstests_splits_share_out_the_published_prompts(mirror: Path) -> None:
    safe, unsafe = (
        load_prompts(discover()[f"xstest_{name}"], mirror)
        for name in ("safe", "unsafe")
    )
    rows = (mirror / "xstest/xstest_prompts.csv").read_text(encoding="utf-8")
    published = {f"v2-{r['id']}": r["prompt"] for r in csv.DictReader(StringIO(rows))}
    assert {prompt.id: prompt.request for prompt in safe + unsafe} == published
    types = Counter(prompt.groups["category"] for prompt in safe + unsafe)
    assert set(types.values()) == {25}, "prompts of each of XSTest's 18 types"
    assert len(types) == 18
    assert (len(safe), len(unsafe)) == (10 * 25, 8 * 25)


def test_a_file_that_the_mirror_lacks_is_named_with_its_source(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        load_prompts(discover()["xstest_safe"], tmp_path)
    source = "https://raw.githubusercontent.com/paul-rottger/exaggerated-safety/475f10b"
    for part in (str(tmp_path), "data pull", "lacks xstest/xstest_prompts.csv", source):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("name", "count", "kind", "groups"),
    [
        ("jailbreakbench", 100, Kind.SAFETY, {"category"}),
        ("deccp_censored", 95, Kind.SENSITIVE, set()),
        ("harmbench", 400, Kind.SAFETY, {"category", "function"}),
    ],
)
def test_a_mirror_serves_the_public_originals(
    mirror: Path, name: str, count: int, kind: Kind, groups: set[str]
) -> None:
    found = discover()[name].at(mirror)
    prompts = load_prompts(found, mirror)
    assert (found.name, len(prompts), found.kind) == (name, count, kind)
    assert {group for prompt in prompts for group in prompt.groups} == groups
    assert len({prompt.request for prompt in prompts}) == count


def test_rows_that_changed_are_refused_until_their_sum_is_accepted() -> None:
    published = replace(bench(A, B), sha256=digest([A, B]))
    assert load_prompts(published, None) == (A, B)
    other = replace(bench(A), sha256=published.sha256)
    with pytest.raises(DataError) as caught:
        load_prompts(other, None)
    assert f'write sha256 = "{digest([A])}" into [bench]' in str(caught.value)


def test_a_digest_tells_any_change() -> None:
    changes: list[dict[str, Any]] = [
        {"id": "p3"},
        {"groups": {"category": "y"}},
        {"groups": {"kind": "x"}},
        {"reference": "A"},
        {"messages": (Message("user", "a "),)},
        {"messages": (Message("system", "a"),)},
    ]
    sets = [(A, B), (B, A), (A,), *((replace(A, **change), B) for change in changes)]
    assert len({digest(prompts) for prompts in sets}) == len(sets)


@pytest.mark.parametrize(
    ("prompts", "reason"),
    [
        ((), "bench: no prompts"),
        ((A, Prompt.single("p2", "\n\t\u3000")), "bench: prompt p2 is empty"),
        ((A, B, A), "bench: two prompts have the id p1"),
    ],
)
def test_prompts_that_cannot_be_asked_are_named(
    prompts: tuple[Prompt, ...], reason: str
) -> None:
    with pytest.raises(DataError, match=reason):
        load_prompts(bench(*prompts), None)


def test_a_mirrored_file_is_used_where_its_bytes_are_the_pinned(tmp_path: Path) -> None:
    path = put(tmp_path, "set/prompts.csv", "id\n1\n")
    file = pinned("id\n1\n")
    assert fetch(file, tmp_path) == path
    path.write_text("id\n2\n")
    with pytest.raises(DataError) as caught:
        fetch(file, tmp_path)
    found = hashlib.sha256(b"id\n2\n").hexdigest()
    for part in (str(path), found, file.sha256, file.revision, file.url):
        assert part in str(caught.value)


def test_the_option_else_the_environment_names_the_mirror(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for value, folder in (("~", tmp_path), ("", None)):
        monkeypatch.setenv(MIRROR_VARIABLE, value)
        assert mirror_folder() == folder
    monkeypatch.setenv(MIRROR_VARIABLE, "/no/such")
    told = f"{MIRROR_VARIABLE}=/no/such: no such folder"
    with pytest.raises(DataError, match=told):
        mirror_folder()
    assert mirror_folder(str(tmp_path)) == tmp_path
    with pytest.raises(DataError, match="--data /nowhere: no such folder"):
        mirror_folder("/nowhere")
