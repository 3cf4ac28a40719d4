"""Data sets of the Hugging Face hub, loaded with the datasets library at a pinned revision."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from refusal_checks.benchmarks.pinned_file import MIRROR_VARIABLE
from refusal_checks.core.errors import DataError, network_reason
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
    """

    repository: str
    revision: str
    split: str
    folder: str
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
        """The split as a ``datasets.Dataset``, from the mirror if one is given, else from the hub.

        Raises:
            DataError: it is missing or cannot be read; the message says what to do.
        """
        return self._mirrored(mirror) if mirror else self._download()

    def _files(self, mirror: Path) -> list[str]:
        return sorted(map(str, (mirror / self.folder).glob(f"{self.split}-*.parquet")))

    def _mirrored(self, mirror: Path) -> Any:
        import datasets  # takes seconds to import, which collection need not wait for

        files = self._files(mirror)
        if not files:
            raise DataError(
                f"the data mirror {mirror} has no {self.folder}/{self.split}-*.parquet; fetch it "
                f"with `refusal-checks data pull {mirror}`, or put the Parquet files of "
                f"{self.repository} (revision {self.revision}) there"
            )
        for file in files:
            _require_small(file)
        try:
            return datasets.load_dataset("parquet", data_files=files, split="train")
        except (OSError, ValueError, datasets.exceptions.DatasetGenerationError) as fault:
            raise DataError(f"{files[0]}: not a Parquet file of this split: {fault}") from fault

    def _download(self) -> Any:
        import datasets

        try:
            with _quiet():
                return datasets.load_dataset(
                    self.repository, split=self.split, revision=self.revision
                )
        except (OSError, ValueError) as fault:
            raise DataError(self._explain(fault)) from fault

    def _explain(self, fault: Exception) -> str:
        where = f"{self.repository}, split {self.split} (revision {self.revision})"
        reason = " ".join(without_credentials(str(fault)).split())[:300]
        if "gated" in reason.lower():
            return (
                f"{where} is gated: accept its conditions at https://huggingface.co/datasets/"
                f"{self.repository} with your account, then set HF_TOKEN to a read token of that "
                f"account (or run `hf auth login`): {reason}"
            )
        if "Unknown split" in reason or "Bad split" in reason:
            return f"{where}: the data set has no such split: {reason}"
        return (
            f"name a mirror with --data DIR or {MIRROR_VARIABLE}, or see to the network: {where} "
            f"could not be loaded: {without_credentials(network_reason(fault))}"
        )


def _require_small(file: str) -> None:
    """Refuse a file that unpacks to more than ``LARGEST``: a few kilobytes can hold terabytes.

    Raises:
        DataError: it does, or it is not a Parquet file.
    """
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
