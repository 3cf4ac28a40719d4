"""A taxonomy of risks: areas and their categories, with the names that data files use."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from pydantic import Field

from refusal_checks.core.errors import DataError, require_known
from refusal_checks.core.settings import Frozen


class Named(Frozen):
    """A thing with a name in two languages.

    Attributes:
        slug: its name in threshold files and reports.
        also: other spellings of the Chinese name in the data.
    """

    slug: str
    english: str
    chinese: str
    also: list[str] = Field(default_factory=list)

    @property
    def spellings(self) -> tuple[str, ...]:
        """Every Chinese name in the data."""
        return self.chinese, *self.also


class Category(Named):
    """A category of risk.

    Attributes:
        questions: published number of questions by kind of task; tasks without the category are
            absent.
    """

    questions: Mapping[str, int] = Field(default_factory=dict)


class Area(Named):
    """An area of risk."""

    categories: list[Category]


class Taxonomy(Frozen):
    """Areas of risk, each with categories; slugs and spellings are unique over all of them."""

    areas: list[Area]

    @property
    def placed(self) -> Iterator[tuple[Area, Category]]:
        """Every category with its area, in order."""
        return ((area, category) for area in self.areas for category in area.categories)

    def find(self, name: str, where: str, task: str) -> tuple[Area, Category]:
        """The category with a Chinese name, in any of its spellings, and its area.

        Args:
            where: the name's place in the data, for messages.
            task: a kind of task that the category must have.

        Raises:
            DataError: there is none; names the nearest one.
        """
        known = {
            spelling: (area, category)
            for area, category in self.placed
            if task in category.questions
            for spelling in category.spellings
        }
        require_known(name, known, where, "category", DataError)
        return known[name]


@cache
def load(path: Path) -> Taxonomy:
    """The taxonomy of a TOML file of this package."""
    return Taxonomy.read(tomllib.loads(path.read_text(encoding="utf-8")), str(path))
