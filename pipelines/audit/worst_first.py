"""Findings for people: the table `findings`, the worst first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from kafka_log.checks.rules import RULES
from kafka_log.checks.rules.rule import Severity

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_PLACE = ("topic", "partition", "path", "position", "offset", "id")


def worst_first(findings: DataFrame) -> DataFrame:
    """Return findings with the titles of their rules, by severity, then by place."""
    severities = F.array(*(F.lit(str(each)) for each in Severity))  # defined in this order
    rank = F.array_position(severities, F.col("severity"))
    place = [F.col(name).asc_nulls_first() for name in _PLACE]
    rest = [name for name in findings.columns if name not in ("id", "severity")]
    ordered = findings.withColumn("title", _title()).orderBy(rank, *place)
    return ordered.select("id", "severity", "title", *rest)


def _title() -> Column:
    titles = [F.lit(text) for rule, each in RULES.items() for text in (rule, each.title)]
    return F.create_map(*titles)[F.col("id")]
