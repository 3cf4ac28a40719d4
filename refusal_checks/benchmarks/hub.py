"""Data sets of the Hugging Face hub, loaded with the datasets library at a pinned revision."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from refusal_checks.benchmarks.pinned import MIRROR_VARIABLE
from refusal_checks.core.errors import DataError, network_reason
from refusal_checks.core.files import WHOLE, require_in_data
from refusal_checks.core.text import without_credentials

CELL = 32
"""Least bytes of a cell in memory, also of an empty one, which a file repeats at no cost."""


@dataclass(frozen=True)
class HubSplit:
    """One split of a data set."""

    repository: str  # ORG/NAME on the hub
    revision: str  # the commit, or a branch or tag if it is not pinned
    split: str
    folder: str  # of the split's Parquet files, relative to a mirror's root
    config: str | None = None  # None where the data set has only one configuration
    is_gated: bool = False
    is_pinned: ClassVar[bool] = False  # the commit says what the hub gives, not what a mirror holds

    def is_in(self, mirror: Path) -> bool:
        return bool(self._files(mirror))

    def pull(self, mirror: Path) -> None:
        path = mirror / self.folder / f"{self.split}-00000-of-00001.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        self._download().to_parquet(str(path))

    def rows(self, mirror: Path | None) -> Any:
        """The split as a ``datasets.Dataset``, from a mirror if given, else from the hub."""
        return self._mirrored(mirror) if mirror else self._download()

    def table(
        self, mirror: Path | None, wanted: Sequence[str], optional: Sequence[str] = ()
    ) -> list[dict[str, Any]]:
        """The rows of ``rows`` with these columns only, and a text in the column ``prompt``."""
        data, where = self.rows(mirror), f"{self.repository}, {self.split}"
        for column in wanted:
            require_in_data(column, data.column_names, where)
        there = [column for column in optional if column in data.column_names]
        rows = [*named(data.select_columns([*wanted, *there]))]
        for number, row in enumerate(rows):
            if not isinstance(row["prompt"], str):
                raise DataError(f"{where}: row {number} has no text in the column prompt")
        return rows

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

        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # it prints each retry
        try:
            return datasets.load_dataset(
                self.repository, self.config, split=self.split, revision=self.revision
            )
        except (OSError, ValueError) as fault:
            config = f" {self.config}," if self.config else ""
            where = f"{self.repository},{config} split {self.split} (revision {self.revision})"
            reason = " ".join(without_credentials(str(fault)).split())[:300]
            if "gated" in reason.lower():
                said = f"{where} is gated: {self._conditions} (or run `hf auth login`): {reason}"
            elif "Unknown split" in reason or "Bad split" in reason:
                said = f"{where}: the data set has no such split: {reason}"
            else:
                said = (
                    f"name a mirror with --data DIR or {MIRROR_VARIABLE}, or connect this machine "
                    f"to the network: {where} could not be loaded: "
                    f"{without_credentials(network_reason(fault))}"
                )
            raise DataError(said) from fault

    @property
    def _conditions(self) -> str:
        """What gives an account the right to fetch a gated data set."""
        return (
            f"accept its conditions at https://huggingface.co/datasets/{self.repository} with your "
            "account, then set HF_TOKEN to a read token of that account"
        )


def named(rows: Any) -> Iterator[dict[str, Any]]:
    """The rows of a data set; class labels by name, as their numbers mean nothing to a reader."""
    if rows.data.nbytes > WHOLE:
        name = rows.info.dataset_name or "the data set"
        raise DataError(f"{name}: take a smaller split: its rows take more than {WHOLE >> 20} MiB")
    labels = {
        column: dict(enumerate(feature.names))
        for column, feature in rows.features.items()
        if hasattr(feature, "names")
    }
    for row in rows.to_list():  # 20 times as fast as one by one
        yield row | {column: names.get(row[column]) for column, names in labels.items()}


def _require_small(file: str) -> None:
    """Refuse a file that unpacks to more than ``WHOLE``: a few kilobytes can hold terabytes."""
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(file) as table:
            groups = (table.metadata.row_group(n) for n in range(table.num_row_groups))
            size = max(0, *(group.total_byte_size for group in groups), 0)
            cells = CELL * table.metadata.num_rows * table.metadata.num_columns
            if max(size, cells) <= WHOLE:
                batches = table.iter_batches(batch_size=64)  # one value can be repeated at no cost
                size = 0
                while size + cells <= WHOLE and (batch := next(batches, None)) is not None:
                    size += batch.nbytes
            size += cells
    except (OSError, ValueError) as fault:
        raise DataError(f"{file}: not a Parquet file of this split: {fault}") from None
    if size > WHOLE:
        raise DataError(
            f"{file}: put a smaller file there: its rows take more than {WHOLE >> 20} MiB once "
            "they are unpacked"
        )
