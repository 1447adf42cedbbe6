"""The file of `plan failures`: what was counted, over what, where, and of which class."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from tenure.settings.errors import Checked, checked
from tenure.settings.plan_units import MOST_NODES, NotNegative, Positive, SomeSeconds
from tenure.settings.units import Instant, Text, whole
from tenure.settings.yaml_file import read_yaml

FailureClass = Literal["hardware", "all-cause", "software", "unsaid"]
Nodes = Annotated[int, BeforeValidator(whole(1, MOST_NODES, "a whole number of nodes"))]
Gpus = Annotated[int, BeforeValidator(whole(1, 100_000_000, "a whole number of GPUs"))]
FORMS = (
    "{source, class, nodes, days, log} or {source, class, nodes, days, causes: {NAME: COUNT}}: failures "
    "with what they were counted over"
)


def _counts(value: Any) -> dict[str, int]:
    if not isinstance(value, dict) or not value:
        raise ValueError("a mapping from a cause to how often it happened")
    read = whole(0, 10**9, "a whole number of failures")
    found = {str(name): int(read(count)) for name, count in value.items()}
    if not sum(found.values()):
        raise ValueError("at least one failure of some cause")
    return found


Counts = Annotated[dict[str, int], BeforeValidator(_counts)]


class RecordFile(Checked):
    """One record of failures: `nodes` watched for `days`. `hardware`: which of its causes are."""

    source: Text
    kind: FailureClass = Field(default="unsaid", alias="class")
    nodes: Nodes
    days: Positive
    log: Text | None = None
    start: Instant | None = None
    causes: Counts | None = None
    hardware: list[Text] = Field(default=[], max_length=10_000)

    @model_validator(mode="before")
    @classmethod
    def _has_denominator(cls, raw: Any) -> Any:
        if not isinstance(raw, dict) or (raw.get("log") is None) == (raw.get("causes") is None):
            raise ValueError(FORMS)
        if raw.get("nodes") is None or raw.get("days") is None:
            raise ValueError(FORMS)
        return raw


class LivesFile(Checked):
    """Lives of parts: a CSV file with the columns of when each came, went, and why (empty: still good)."""

    file: Text
    part: Text = "part"
    begin: Text = "begin"
    end: Text = "end"
    event: Text = "event"
    failed: list[Text] | None = None
    early: SomeSeconds = 90 * 86_400.0


class SizeFile(Checked):
    """Failures of jobs of one size."""

    gpus: Gpus
    events: NotNegative
    gpu_days: Positive


class FailureRatesFile(Checked):
    records: list[RecordFile] = Field(default=[], max_length=1000)
    lives: LivesFile | None = None
    sizes: list[SizeFile] = Field(default=[], max_length=1000)
    gpus: list[Gpus] = Field(default=[], max_length=1000)

    @model_validator(mode="after")
    def _something(self) -> FailureRatesFile:
        if not self.records and self.lives is None and not self.sizes:
            raise ValueError("records, lives or sizes: something that was counted")
        return self


def read_failure_rates_file(path: Path) -> FailureRatesFile:
    """The file, checked; BadInput where it is wrong."""
    return failure_rates_file_of(read_yaml(path), file=str(path))


def failure_rates_file_of(raw: Any, *, file: str = "plan") -> FailureRatesFile:
    """The file of a mapping."""
    return checked(FailureRatesFile, raw, file=file)
