"""Data sets of the Hugging Face hub, loaded with the datasets library at a pinned revision."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from refusal_checks.benchmarks.pinned import MIRROR_VARIABLE
from refusal_checks.core.errors import DataError, network_reason
from refusal_checks.core.files import require_in_data
from refusal_checks.core.text import without_credentials

LARGEST = 2**30
"""Most bytes that a Parquet file may have once it is unpacked; no benchmark has a tenth of it."""


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the hub's library from printing a line for each of its retries."""
    logger = logging.getLogger("huggingface_hub")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


@dataclass(frozen=True)
class HubSplit:
    """One split of a data set.

    Attributes:
        repository: ``ORG/NAME`` on the hub.
        revision: the commit, or a branch or tag if it is not pinned.
        folder: where a mirror holds the split's Parquet files, relative to the mirror's root.
        config: which of the data set's configurations; None where it has only one.
        is_gated: the hub gives it only to accounts that have accepted its conditions.
    """

    repository: str
    revision: str
    split: str
    folder: str
    config: str | None = None
    is_gated: bool = False
    is_pinned: ClassVar[bool] = False  # the commit says what the hub gives, not what a mirror holds

    def is_in(self, mirror: Path) -> bool:
        """See ``Resource.is_in``."""
        return bool(self._files(mirror))

    def pull(self, mirror: Path) -> Path:
        """See ``Resource.pull``."""
        path = mirror / self.folder / f"{self.split}-00000-of-00001.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        self._download().to_parquet(str(path))
        return path

    def rows(self, mirror: Path | None) -> Any:
        """The split as a ``datasets.Dataset``, from a mirror if given, else from the hub."""
        return self._mirrored(mirror) if mirror else self._download()

    def table(self, mirror: Path | None, prompt: str, *others: str) -> list[dict[str, Any]]:
        """The rows of ``rows`` with these columns only.

        Args:
            prompt: the column with the prompts.
        """
        rows, where = self.rows(mirror), f"{self.repository}, {self.split}"
        _require_columns((prompt, *others), rows.column_names, where)
        found: list[dict[str, Any]] = rows.select_columns([prompt, *others]).to_list()
        return _with_text(found, prompt, where)

    def _files(self, mirror: Path) -> list[str]:
        return sorted(map(str, (mirror / self.folder).glob(f"{self.split}-*.parquet")))

    def _mirrored(self, mirror: Path) -> Any:
        import datasets  # takes seconds to import, which collection need not wait for

        files = self._files(mirror)
        if not files:
            pull = f"`refusal-checks data pull {mirror}{' --benchmark NAME' * self.is_gated}`"
            first = f" ({self._conditions} first)" if self.is_gated else ""
            raise DataError(
                f"the data mirror {mirror} has no {self.folder}/{self.split}-*.parquet; fetch it "
                f"with {pull}{first}, or put the Parquet files of {self.repository} (revision "
                f"{self.revision}) there"
            )
        for file in files:
            _require_small(file)
        try:
            return datasets.load_dataset("parquet", data_files=files, split="train")
        except (OSError, ValueError, datasets.exceptions.DatasetGenerationError) as fault:
            raise DataError(f"{files[0]}: not a Parquet file of this split: {fault}") from fault

    def _download(self) -> Any:
        import datasets

        named = (self.repository, self.config) if self.config else (self.repository,)
        try:
            with _quiet():
                return datasets.load_dataset(*named, split=self.split, revision=self.revision)
        except (OSError, ValueError) as fault:
            raise DataError(self._explain(fault)) from fault

    @property
    def _conditions(self) -> str:
        """What gives an account the right to fetch a gated data set."""
        return (
            f"accept its conditions at https://huggingface.co/datasets/{self.repository} with your "
            "account, then set HF_TOKEN to a read token of that account"
        )

    def _explain(self, fault: Exception) -> str:
        config = f" {self.config}," if self.config else ""
        where = f"{self.repository},{config} split {self.split} (revision {self.revision})"
        reason = " ".join(without_credentials(str(fault)).split())[:300]
        if "gated" in reason.lower():
            return f"{where} is gated: {self._conditions} (or run `hf auth login`): {reason}"
        if "Unknown split" in reason or "Bad split" in reason:
            return f"{where}: the data set has no such split: {reason}"
        return (
            f"name a mirror with --data DIR or {MIRROR_VARIABLE}, or connect this machine to "
            f"the network: {where} could not be loaded: "
            f"{without_credentials(network_reason(fault))}"
        )


def read_parquet(path: Path, prompt: str, *others: str) -> list[dict[str, Any]]:
    """The rows of a Parquet file with these columns only, see ``HubSplit.table``."""
    from pyarrow import parquet

    _require_small(str(path))
    _require_columns((prompt, *others), parquet.read_schema(path).names, str(path))
    found = parquet.read_table(path, columns=[prompt, *others]).to_pylist()
    return _with_text(found, prompt, str(path))


def _require_columns(wanted: Iterable[str], known: Sequence[str], where: str) -> None:
    for column in wanted:
        require_in_data(column, known, where)


def _with_text(rows: list[dict[str, Any]], column: str, where: str) -> list[dict[str, Any]]:
    for number, row in enumerate(rows):
        if not isinstance(row[column], str):
            raise DataError(f"{where}: row {number} has no text in the column {column}")
    return rows


def _require_small(file: str) -> None:
    """Refuse a file that unpacks to more than ``LARGEST``: a few kilobytes can hold terabytes."""
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(file) as table:
            groups = (table.metadata.row_group(n) for n in range(table.num_row_groups))
            size = max(0, *(group.total_byte_size for group in groups), 0)
            if size <= LARGEST:
                batches = table.iter_batches(batch_size=64)  # one value can be repeated at no cost
                size = 0
                while size <= LARGEST and (batch := next(batches, None)) is not None:
                    size += batch.nbytes
    except (OSError, ValueError) as fault:
        raise DataError(f"{file}: not a Parquet file of this split: {fault}") from None
    if size > LARGEST:
        raise DataError(
            f"{file}: put a smaller file there: its rows take more than {LARGEST / 2**30:g} GiB "
            "once they are unpacked"
        )
