"""Whatever the bytes, a reader gives a sound trace or one BadInput: never another exception."""

import gzip
import os
import random
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenure.core.words import End
from tenure.settings.errors import BadInput
from tenure.simulator.traces import FORMATS, Trace, detect_format, read_trace
from tenure.simulator.traces.convert import write_parquet
from tenure.simulator.traces.describe import describe
from tenure.simulator.traces.sample import write_sample

NASTY = [
    "", "nan", "-1", "1e400", "-inf", "0", "99999999999999999999999", "None", "Unknown",
    "9999-12-31 23:59:59",
    "0001-01-01 00:00:00", "2024-02-30 00:00:00", "2024-01-01 24:00:00", "١٢٣", "\0", '"', "|", ",",
    "\n", "\r",
    ";", "{", "[", "]", "null", "true", "1_0", "0x10", "²", "9" * 5000, "2024-01-01T00:00:00+99:99", "\ufeff",
    "-5-01:02:03", "gres/gpu=" + "9" * 30, "gpu:", "123_[", "+", "1e9", "1e18", "-0.5", "\ud83d\ude00",
]  # fmt: skip
FILES = {"csv": "jobs.csv", "helios": "cluster_log.csv", "philly": "cluster_job_log",
         "pai": "pai_job_table.csv", "acme": "trace_seren.csv", "swf": "made-up.swf", "sacct": "sacct.txt",
         "tenure": "story.jsonl"}  # fmt: skip
QUICK = settings(
    max_examples=int(os.environ.get("TENURE_FUZZ", "25")),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def samples(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("samples")
    return {name: write_sample(folder / name, name, jobs=12, seed=2) for name in FORMATS}


def check(trace: Trace) -> None:
    """What everything after an import relies on."""
    rows, report = trace.rows, trace.report
    assert len(rows) == len(trace.ids) == len(set(trace.ids)) == report.kept > 0
    assert report.read == report.kept + sum(found.count for found in report.dropped.values())
    assert (np.diff(rows["submit_s"]) >= 0).all()
    assert rows["submit_s"][0] >= 0
    assert (rows["runtime_s"] >= 1).all()
    assert (rows["gpus"] >= 1).all()
    assert (rows["min_runtime_s"] >= -1).all()
    assert (rows["max_runtime_s"] > 0).all()
    assert ((rows["tenant"] >= 0) & (rows["tenant"] < len(trace.tenants))).all()
    assert all(name.strip() for name in trace.tenants)
    assert set(rows["end"].tolist()) <= {int(end) for end in End}
    str(report)
    description = describe(trace, gpus=8)
    assert sum(description.by_week_hour) == len(trace)


def read(file: Path, format: str) -> None:
    try:
        trace = read_trace(file, format)
    except BadInput as refused:
        message = str(refused)
    else:
        check(trace)
        return
    assert "\n" not in message
    assert len(message) < 2000


def place(folder: Path, format: str, content: bytes) -> Path:
    file = folder / FILES[format]
    file.write_bytes(content)
    if format == "pai":
        (folder / "pai_task_table.csv").write_bytes(content)
        (folder / "pai_instance_table.csv").write_bytes(content)
    return file


@pytest.mark.parametrize("format", FORMATS)
@QUICK
@given(content=st.binary(max_size=400))
def test_random_bytes(format, content):
    with TemporaryDirectory() as folder:
        file = place(Path(folder), format, content)
        read(file, format)
        try:
            detected = detect_format(file)
        except BadInput:
            return
        assert detected in FORMATS


def mutated(text: str, chance: random.Random, separators: str) -> str:
    """The text with a few cells replaced, lines doubled, cut or dropped."""
    lines = text.splitlines(keepends=True)
    for _ in range(chance.randint(1, 6)):
        k = chance.randrange(len(lines))
        separator = chance.choice(separators)
        cells = lines[k].split(separator)
        what = chance.randrange(8)
        if what < 5:
            cells[chance.randrange(len(cells))] = chance.choice(NASTY)
            lines[k] = separator.join(cells)
        elif what == 5:
            lines.insert(k, lines[k])
        elif what == 6:
            lines[k] = lines[k][: chance.randrange(len(lines[k]) + 1)]
        elif len(lines) > 1:
            del lines[k]
    return "".join(lines)


SEPARATORS = {"philly": ' ":', "tenure": ' ":', "swf": " ", "sacct": "|", "pai": ","}


@pytest.mark.parametrize("format", FORMATS)
@QUICK
@given(seed=st.integers(0, 2**32))
def test_mutated_lines(format, seed, samples):
    chance = random.Random(seed)
    sample = samples[format]
    separators = SEPARATORS.get(format, ",")
    with TemporaryDirectory() as folder:
        originals = sorted(sample.iterdir()) if sample.is_dir() else [sample]
        for original in originals:
            text = mutated(original.read_text(), chance, separators)
            (Path(folder) / original.name).write_text(text, "utf-8", errors="surrogatepass", newline="")
        read(Path(folder) / FILES[format], format)


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
@QUICK
@given(data=st.data())
def test_packed_bytes_cut_or_flipped(pack, data, samples):
    format = data.draw(st.sampled_from(["csv", "swf", "sacct", "philly", "tenure"]))
    packed = bytearray(pack(samples[format].read_bytes()))
    for _ in range(data.draw(st.integers(0, 3))):
        packed[data.draw(st.integers(0, len(packed) - 1))] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.integers(1, len(packed)))
    with TemporaryDirectory() as folder:
        read(place(Path(folder), format, bytes(packed[:cut])), format)


@QUICK
@given(data=st.data())
def test_parquet_with_flipped_bytes(data, samples):
    with TemporaryDirectory() as folder:
        file = Path(folder) / "trace.parquet"
        write_parquet(read_trace(samples["sacct"], "sacct"), file)
        content = bytearray(file.read_bytes())
        for _ in range(data.draw(st.integers(1, 4))):
            content[data.draw(st.integers(4, len(content) - 1))] ^= data.draw(st.integers(1, 255))
        file.write_bytes(bytes(content))
        read(file, "tenure")
