"""Hugging Face data sets at a pinned revision, from a mirror or else from the hub."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from refusal_checks.benchmarks.pinned import CONNECT, MIRROR_VARIABLE
from refusal_checks.core.errors import DataError, describe_network_fault
from refusal_checks.core.redaction import strip_credentials
from refusal_checks.io import parquet
from refusal_checks.io.data_files import require_in_data
from refusal_checks.io.files import LARGEST

if TYPE_CHECKING:
    from pyarrow import Table

_LEAVES_NO_COPY: ContextVar[bool] = ContextVar("_LEAVES_NO_COPY", default=False)


@contextmanager
def no_cached_copy(is_private: bool) -> Iterator[None]:
    """In a private run (``--redact``), keep data sets out of caches."""
    before = _LEAVES_NO_COPY.set(is_private)
    try:
        yield
    finally:
        _LEAVES_NO_COPY.reset(before)


@dataclass(frozen=True)
class HubSplit:
    """One split of a data set.

    Attributes:
        repository: ORG/NAME on the hub.
        revision: the commit, or a branch or tag if it is not pinned.
        folder: folder of the split's Parquet files, relative to a mirror's root.
        config: configuration; None if the data set has only one.
    """

    repository: str
    revision: str
    split: str
    folder: str
    config: str | None = None
    is_gated: bool = False
    # The commit says what the hub gives, not what a mirror holds.
    is_pinned: ClassVar[bool] = False

    def is_in(self, mirror: Path) -> bool:
        return bool(self._files(mirror))

    def pull(self, mirror: Path) -> None:
        from pyarrow.parquet import write_table

        path = mirror / self.folder / f"{self.split}-00000-of-00001.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_table(self._download(CONNECT), path)

    def rows(self, mirror: Path | None) -> Table:
        """The split as a pyarrow table, from a mirror if given, else from the hub."""
        if mirror:
            return self._read_mirror(mirror)
        return self._download(
            f"name a mirror with --data DIR or {MIRROR_VARIABLE}, or {CONNECT}"
        )

    def table(
        self, mirror: Path | None, required: Sequence[str], optional: Sequence[str] = ()
    ) -> list[dict[str, Any]]:
        """Like ``rows``, but with only these columns, and a text in each ``prompt``."""
        data, where = self.rows(mirror), f"{self.repository}, {self.split}"
        for column in required:
            require_in_data(column, data.column_names, where)
        columns = [*required, *(name for name in optional if name in data.column_names)]
        rows = list(iterate_rows(data.select(columns), self.repository))
        for number, row in enumerate(rows):
            if not isinstance(row["prompt"], str):
                raise DataError(
                    f"{where}: row {number} has no text in the column prompt"
                )
        return rows

    def _files(self, mirror: Path) -> list[Path]:
        return sorted((mirror / self.folder).glob(f"{self.split}-*.parquet"))

    def _read_mirror(self, mirror: Path) -> Table:
        import pyarrow  # takes a while to import, which collection need not wait for

        files = self._files(mirror)
        if not files:
            fetch = f"`refusal-checks data pull {mirror}`"
            if self.is_gated:
                fetch = (
                    f"`refusal-checks data pull {mirror} --benchmark NAME` ({self._conditions} "
                    "first)"
                )
            raise DataError(
                f"the data mirror {mirror} has no {self.folder}/{self.split}-*.parquet; fetch it "
                f"with {fetch}, or put the Parquet files of {self.repository} (revision "
                f"{self.revision}) there"
            )
        # Columns may be missing from some files of a split, and are then empty.
        try:
            tables = [parquet.read_table(file, file) for file in files]
            return pyarrow.concat_tables(tables, promote_options="default")
        except pyarrow.ArrowException as fault:
            raise DataError(
                f"{files[0].parent}: put the files of one split there: {fault}"
            ) from None

    def _download(self, remedy: str) -> Table:
        import datasets  # takes seconds to import
        from huggingface_hub import constants

        # Its client prints each retry.
        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
        # A stream leaves no file behind. Without a network only what is cached already is read.
        is_streamed = _LEAVES_NO_COPY.get() and not constants.HF_HUB_OFFLINE
        try:
            data = datasets.load_dataset(
                self.repository,
                self.config,
                split=self.split,
                revision=self.revision,
                streaming=is_streamed,
            )
            if is_streamed:
                return self._collect(data)
            return data.data.table
        except _faults() as fault:
            raise DataError(self._why(fault, remedy)) from fault

    def _why(self, fault: Exception, remedy: str) -> str:
        """Say what to do about a data set that could not be loaded, and why.

        Args:
            remedy: what to do if the network is the reason.
        """
        config = f" {self.config}," if self.config else ""
        where = (
            f"{self.repository},{config} split {self.split} (revision {self.revision})"
        )
        reason = " ".join(strip_credentials(str(fault)).split())[:300]
        if "gated" in reason.lower():
            return f"{where} is gated: {self._conditions} (or run `hf auth login`): {reason}"
        if "scripts are no longer supported" in reason:
            return f"{where}: save its rows as a file and name that: no script is run: {reason}"
        if "Unknown split" in reason or "Bad split" in reason:
            return f"{where}: the data set has no such split: {reason}"
        return (
            f"{remedy}: {where} could not be loaded: "
            f"{strip_credentials(describe_network_fault(fault))}"
        )

    def _collect(self, stream: Any) -> Table:
        """Collect a stream's rows in memory."""
        import pyarrow

        batches: list[Table] = []
        size = 0
        for batch in stream.with_format("arrow").iter(batch_size=1000):
            batches.append(batch)
            size += batch.nbytes
            if size > LARGEST:
                raise _size_error(self.repository)
        table = pyarrow.concat_tables(batches, promote_options="default")
        if stream.features is not None:
            table = table.cast(stream.features.arrow_schema)
        return table

    @property
    def _conditions(self) -> str:
        """Say how to get access to a gated data set."""
        return (
            f"accept its conditions at https://huggingface.co/datasets/{self.repository} with your "
            "account, then set HF_TOKEN to a read token of that account"
        )


def _faults() -> tuple[type[Exception], ...]:
    """Exceptions of loading a data set; newer versions of the hub's client use httpx.

    A data set with a script is a RuntimeError.
    """
    with suppress(ImportError):
        from httpx import HTTPError

        return OSError, RuntimeError, ValueError, HTTPError
    return OSError, RuntimeError, ValueError


def iterate_rows(table: Table, name: str) -> Iterator[dict[str, Any]]:
    """The rows of a data set's table, with class names; see ``parquet.rows``."""
    if table.nbytes > LARGEST:
        raise _size_error(name)
    yield from parquet.rows(table)


def _size_error(name: str) -> DataError:
    return DataError(
        f"{name}: use a smaller split: its rows take up more than {LARGEST >> 20} MiB"
    )
