"""Decodes keys and values with Spark's own functions; Kafka only stores bytes.

    log.records(topics="orders", key=text(), value=json("id LONG, total DOUBLE"))

Each returns a function of a column, which can also be used directly:

    records.select(text()("key"), json("id LONG")("value").id)

Null stays null, and empty stays empty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from json import dumps
from typing import TYPE_CHECKING, Any, TypeAlias, Union

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import ArrayType, StructType

Reading: TypeAlias = Callable[[Union["Column", str]], "Column"]
"""Turns a column of bytes into a column of values."""

REGISTRY_HEADER = 5
"""Bytes that the serializer of a schema registry writes first: a zero, and the schema id."""

_AVRO_CLASS = "org.apache.spark.sql.avro.AvroDataToCatalyst"


class AvroUnavailableError(Exception):
    """Spark needs a jar for Avro that is missing."""


def text() -> Reading:
    """Decode UTF-8; invalid bytes become U+FFFD."""

    def read(column: Column | str) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        return F.make_valid_utf8(_column(column).cast("string"))

    return read


def json(
    schema: StructType | ArrayType | str, *, skip: int = 0, options: Mapping[str, str] | None = None
) -> Reading:
    """Decode with Spark's from_json and its options; the schema is Spark's, or DDL: `id LONG, …`.

    `skip` is the number of bytes before the value, such as REGISTRY_HEADER.
    """

    def read(column: Column | str) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        plain = _without_prefix(_column(column), skip).cast("string")
        return F.from_json(plain, schema, dict(options or {}))

    return read


def avro(
    schema: str | Mapping[str, Any], *, skip: int = 0, options: Mapping[str, str] | None = None
) -> Reading:
    """Decode with Spark's from_avro; the schema is the writer's, as JSON. Needs spark-avro.

    Raises AvroUnavailableError when a column is read.
    """
    writer = schema if isinstance(schema, str) else dumps(schema)

    def read(column: Column | str) -> Column:
        from pyspark.sql.avro.functions import from_avro

        _ensure_avro()
        return from_avro(_without_prefix(_column(column), skip), writer, dict(options or {}))

    return read


def _column(column: Column | str) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.col(column) if isinstance(column, str) else column


def _without_prefix(column: Column, skip: int) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return column if skip == 0 else F.substring(column, skip + 1, 2**31 - 1 - skip)


def _ensure_avro() -> None:
    """Raise if the jar is missing; Spark would do so in planning, without naming a version."""
    import pyspark
    from pyspark.sql import SparkSession

    from pipelines.source.data_source import has_class

    spark = SparkSession.getActiveSession()
    if spark is not None and not has_class(spark, _AVRO_CLASS):
        package = f"org.apache.spark:spark-avro_2.13:{pyspark.__version__}"
        raise AvroUnavailableError(
            f"this Spark session has no Avro: in conf/spark-defaults.conf add {package} to the line"
            " spark.jars.packages (a comma between packages)"
        )
