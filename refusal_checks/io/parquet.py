"""Read Parquet files and pyarrow tables into memory, up to a size limit.

pyarrow takes a while to import, so each function imports it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from refusal_checks.core.errors import DataError
from refusal_checks.io.files import LARGEST
from refusal_checks.io.strict_json import parse_json

if TYPE_CHECKING:
    from pyarrow import Table

CELL = 32
"""Fewest bytes that count for a cell, also an empty one: files can repeat those at no cost."""


def read_table(file: Path | BinaryIO, where: object) -> Table:
    """Read a Parquet file's table; ``where`` names the file in messages.

    A few kilobytes can decompress to terabytes, so tables of more than ``LARGEST`` bytes are
    refused.
    """
    import pyarrow
    from pyarrow import parquet

    batches = []
    try:
        with parquet.ParquetFile(file) as packed:
            schema, about = packed.schema_arrow, packed.metadata
            # Arrow's own count leaves out what Python objects take later.
            size = CELL * about.num_rows * about.num_columns
            # In small parts: a value is repeated at no cost to the file.
            for batch in packed.iter_batches(batch_size=64):
                batches.append(batch)
                size += batch.nbytes
                if size > LARGEST:
                    raise DataError(
                        f"{where}: use a smaller file: its rows take more than "
                        f"{LARGEST >> 20} MiB when unpacked"
                    )
    except (OSError, pyarrow.ArrowException) as fault:
        raise DataError(
            f"{where}: not a Parquet file that can be read: {fault}"
        ) from None
    return pyarrow.Table.from_batches(batches, schema)


def rows(table: Table) -> Iterator[dict[str, Any]]:
    """The rows of a table; class labels appear by name, because their numbers say nothing."""
    labels = _class_names(table)
    for row in table.to_pylist():
        for column, names in labels.items():
            if isinstance(row[column], int):
                row[column] = names.get(row[column])
        yield row


def _class_names(table: Table) -> dict[str, Mapping[int, str]]:
    """Class labels' names by number, as the datasets library stores them in a file.

    Metadata that cannot be read names no classes.
    """
    features: Any = {}
    with suppress(ValueError, LookupError, TypeError):
        about = parse_json((table.schema.metadata or {})[b"huggingface"])
        features = about["info"]["features"]
    if not isinstance(features, dict):
        return {}

    labels: dict[str, Mapping[int, str]] = {}
    for column, feature in features.items():
        names = feature.get("names") if isinstance(feature, dict) else None
        if column in table.column_names and isinstance(names, list):
            labels[column] = dict(enumerate(map(str, names)))
    return labels
