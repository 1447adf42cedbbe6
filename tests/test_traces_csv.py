"""A csv with a column map, what every reader judges alike, and the opening of files."""

import gzip
from datetime import UTC, datetime
from pathlib import Path

import pytest
import zstandard

from tenure.core.words import NEVER_S, End
from tenure.settings.errors import BadInput
from tenure.simulator.traces import FORMATS, Trace, detect_format, read_trace

MAP = {"job": "id", "submit": "at", "runtime": "took", "gpus": "n"}


def read(tmp_path: Path, text: str | bytes, name: str = "jobs.csv", **options) -> Trace:
    file = tmp_path / name
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_trace(file, options.pop("format", "csv"), **options)


def counts(trace: Trace, what: str) -> dict[str, tuple[int, int | None]]:
    return {reason: (found.count, found.line) for reason, found in getattr(trace.report, what).items()}


def test_numbers_are_seconds_after_second_0_and_sorting_is_stable(tmp_path):
    trace = read(tmp_path, "id,at,took,n\nb,30,10,8\na,5,7.6,1\nc,30,20,2\n", columns=MAP)
    assert trace.ids == ["a", "b", "c"]
    assert trace.rows["submit_s"].tolist() == [5, 30, 30]
    assert trace.rows["runtime_s"].tolist() == [8, 10, 20]
    assert trace.rows["gpus"].tolist() == [1, 8, 2]
    assert trace.start is None
    assert trace.tenants == ["all"]
    assert (trace.report.read, trace.report.kept) == (3, 3)
    assert trace.rows["max_runtime_s"].tolist() == [NEVER_S] * 3
    assert trace.rows["min_runtime_s"].tolist() == [-1] * 3


def test_numbers_keep_their_place_when_a_start_is_given(tmp_path):
    start = datetime(2026, 1, 5, tzinfo=UTC)
    trace = read(tmp_path, "id,at,took,n\na,5,7,1\n", columns=MAP, start=start)
    assert (trace.rows["submit_s"][0], trace.start) == (5, "2026-01-05T00:00:00Z")


def test_dates_set_second_0_to_the_first_of_them(tmp_path):
    text = "id,at,took,n\nb,2024-03-01 00:01:00,10,8\na,2024-03-01 00:00:00,10,8\n"
    trace = read(tmp_path, text, columns=MAP)
    assert trace.rows["submit_s"].tolist() == [0, 60]
    assert trace.start == "2024-03-01T00:00:00Z"


def test_dates_before_a_given_start_are_dropped_and_counted(tmp_path):
    text = "id,at,took,n\na,2024-03-01 00:00:00,10,8\nb,2024-03-01T00:01:00+01:00,10,8\nc,2024-03-02,10,8\n"
    trace = read(tmp_path, text, columns=MAP, start=datetime(2024, 3, 1, tzinfo=UTC))
    assert trace.ids == ["a", "c"]
    assert counts(trace, "dropped") == {"submitted before the start given": (1, 3)}


def test_a_zone_with_a_clock_change(tmp_path):
    """In Paris 2024-10-27 02:30 came twice; 2024-03-31 02:30 never did."""
    text = "id,at,took,n\na,2024-10-27 01:30:00,1,1\nb,2024-10-27 02:30:00,1,1\nc,2024-10-27 03:30:00,1,1\n"
    trace = read(tmp_path, text, columns=MAP, timezone="Europe/Paris")
    assert trace.start == "2024-10-26T23:30:00Z"
    assert trace.rows["submit_s"].tolist() == [0, 3600, 3 * 3600]
    guessed = counts(trace, "guessed")
    assert guessed == {"a local time that came twice or never, read by the offset before the change": (1, 3)}
    spring = read(tmp_path, "id,at,took,n\na,2024-03-31 02:30:00,1,1\n", columns=MAP, timezone="Europe/Paris")
    assert spring.start == "2024-03-31T01:30:00Z"
    assert sum(found.count for found in spring.report.guessed.values()) == 1


@pytest.mark.parametrize("zone", ["Nowhere/Land", "../etc", "", "UTC\0"])
def test_a_zone_that_is_none(tmp_path, zone):
    with pytest.raises(BadInput, match="timezone"):
        read(tmp_path, "id,at,took,n\na,2024-03-31 02:30:00,1,1\n", columns=MAP, timezone=zone)


def test_large_numbers_are_unix_times(tmp_path):
    trace = read(tmp_path, "id,at,took,n\na,1700000000,1,1\nb,1700000060.4,1,1\n", columns=MAP)
    assert trace.start == "2023-11-14T22:13:20Z"
    assert trace.rows["submit_s"].tolist() == [0, 60]
    assert counts(trace, "guessed") == {"numbers so large are Unix times": (2, 2)}


def test_what_cannot_be_a_job_is_dropped_with_its_reason_and_line(tmp_path):
    rows = [
        "ok,0,60,8", "cpu,0,60,0", "nogpu,0,60,", "nosub,,60,1", "nan,nan,60,1", "norun,5,,1", "neg,5,-60,1",
        "negsub,-5,60,1", "long,5,1e9,1", "inf,5,inf,1", "many,5,60,1e9", "year,3e9,60,1", "late,3e10,60,1",
        "short,1,2", "",
        ",,,",
    ]  # fmt: skip
    trace = read(tmp_path, "id,at,took,n\n" + "\n".join(rows) + "\n", columns=MAP)
    assert trace.ids == ["ok"]
    assert counts(trace, "dropped") == {
        "no GPUs": (1, 3),
        "no readable number of GPUs": (1, 4),
        "no readable submit time": (2, 5),
        "no runtime: it never ran, or had not ended": (2, 7),
        "negative runtime": (1, 8),
        "submitted before second 0": (1, 9),
        "runtime above a year": (1, 10),
        "more than a million GPUs": (1, 12),
        "submitted years away from all others": (1, 13),
        "submitted after the year 2200": (1, 14),
        "not as many cells as the header": (1, 15),
    }
    assert counts(trace, "skipped") == {"blank line": (2, 16)}
    assert trace.report.read == 14
    assert trace.report.kept == 1


@pytest.mark.parametrize("date", ["0001-01-01 00:00:00", "1969-12-31 23:59:59", "9999-12-31 23:59:59"])
def test_dates_that_no_trace_has_are_not_read(tmp_path, date):
    text = f"id,at,took,n\na,2024-03-01,10,8\nb,{date},10,8\n"
    trace = read(tmp_path, text, columns=MAP)
    assert counts(trace, "dropped") == {"no readable submit time": (1, 3)}


def test_what_is_clamped_is_counted(tmp_path):
    trace = read(tmp_path, "id,at,took,n\na,0,0,1\nb,0,0.2,0.25\nc,0,60,2.5\n", columns=MAP)
    assert trace.rows["runtime_s"].tolist() == [1, 1, 60]
    assert trace.rows["gpus"].tolist() == [1, 1, 3]
    assert counts(trace, "clamped") == {
        "runtime under a second, taken as 1 s": (2, 2),
        "parts of a GPU, rounded up": (2, 3),
    }


def test_an_id_used_twice_is_renamed_and_the_same_row_twice_dropped(tmp_path):
    text = "id,at,took,n\na,0,60,1\na,0,60,1\na,9,60,1\na~2,1,60,1\na,9,70,1\n"
    trace = read(tmp_path, text, columns=MAP)
    assert sorted(trace.ids) == ["a", "a~2", "a~3", "a~4"]
    assert trace.report.dropped["the same job said twice"].count == 1
    assert trace.report.guessed["an id used before, given a new name (ID~2 …)"].count == 2


def test_all_columns_a_map_may_name(tmp_path):
    text = (
        "name;x,sent,begun,done,g,who,least,most,prio,how\n"
        'j;1,2024-01-01 00:00:00,2024-01-01 00:10:00,2024-01-01 01:10:00,16,"lab, one",600,2:00:00,7,FAILED\n'
        "j2,2024-01-01 00:00:01,2024-01-01 00:10:00,2024-01-01 01:10:00,16,,,,,COMPLETED\n"
    )
    columns = {
        "job": "name;x", "submit": "sent", "start": "begun", "end": "done", "gpus": "g", "account": "who",
        "min_runtime": "least", "max_runtime": "most", "priority": "prio", "state": "how",
    }  # fmt: skip
    trace = read(tmp_path, text, columns=columns)
    first, second = trace.rows
    assert trace.tenants == ["lab, one", "unnamed"]
    assert (first["runtime_s"], first["min_runtime_s"], first["max_runtime_s"]) == (3600, 600, 7200)
    assert (first["priority"], first["end"], first["fails"]) == (7, End.FAILED, True)
    assert (second["min_runtime_s"], second["max_runtime_s"], second["priority"]) == (-1, NEVER_S, 0)
    assert (second["end"], second["fails"]) == (End.FINISHED, False)
    assert trace.started_s is not None
    assert trace.started_s.tolist() == [600, 600]
    assert trace.report.guessed["no tenant named, given to 'unnamed'"].line == 3


def test_without_a_map_usual_names_are_tried(tmp_path):
    trace = read(tmp_path, "Job_ID,Submit_Time,Duration,GPU_num,VC\nx,10,20,4,vc1\n")
    assert (trace.ids, trace.tenants, trace.rows["gpus"].tolist()) == (["x"], ["vc1"], [4])


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (
            {**MAP, "gpus": "nope"},
            r"columns\.gpus: found the columns 'id', 'at', 'took', 'n'; allowed: a column nope",
        ),
        ({"submit": "at", "gpus": "n"}, r"a column map that names runtime \(or end\)"),
        ({**MAP, "colour": "n"}, r"columns\.colour: found a key that is not known"),
        (None, "a column map that names submit"),
    ],
)  # fmt: skip
def test_wrong_columns_say_what_is_there_and_what_is_needed(tmp_path, columns, said):
    with pytest.raises(BadInput, match=said):
        read(tmp_path, "id,at,took,n\na,0,60,1\n", columns=columns)


@pytest.mark.parametrize("mark", [";", "\t"])
def test_tabs_and_semicolons_part_cells_too(tmp_path, mark):
    text = "\n\nid,at,took,n\na,0,60,1\n,,,\nb,1,60,0\n".replace(",", mark)
    trace = read(tmp_path, text, columns=MAP)
    assert trace.ids == ["a"]
    assert counts(trace, "dropped") == {"no GPUs": (1, 6)}


def test_times_in_another_spelling_are_told_apart_from_an_empty_trace(tmp_path):
    with pytest.raises(
        BadInput, match=r"columns\.submit: found 'March 1st'; allowed: seconds as a number, or"
    ):
        read(tmp_path, "id,at,took,n\na,March 1st,60,1\n", columns=MAP)


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_packed_marked_and_windows_files_read_alike(tmp_path, pack, mark, end):
    text = f"{mark}id,at,took,n{end}{end}a,0,60,1{end}b,1,60,2{end}".encode()
    trace = read(tmp_path, pack(text), columns=MAP)
    assert trace.ids == ["a", "b"]
    assert trace.rows["gpus"].tolist() == [1, 2]


def test_utf16_and_spoiled_bytes(tmp_path):
    assert read(tmp_path, "id,at,took,n\nä,0,60,1\n".encode("utf-16"), columns=MAP).ids == ["ä"]
    assert read(tmp_path, b"id,at,took,n\nx\xff,0,60,1\n", columns=MAP).ids == ["x\ufffd"]


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_a_file_cut_short_is_refused_whole(tmp_path, pack):
    rows = "".join(f"j{k},{k},{k * 7919 % 10007},1\n" for k in range(20_000))
    packed = pack(("id,at,took,n\n" + rows).encode())
    with pytest.raises(BadInput, match="ends too early"):
        read(tmp_path, packed[: len(packed) // 2], columns=MAP)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "an empty file"),
        (b"id,at,took,n\n", "no job .the file holds no rows"),
        (b"id,at,took,n\na,0,60,0\n", "no job .1 dropped: no GPUs"),
        (b"\x1f\x8b\x08\x00nothing at all, truly", "damaged file"),
        (b"\x28\xb5\x2f\xfdnothing at all", "damaged file|ends too early"),
        (b"PK\x03\x04\x00\x00", "found the columns"),
        (b'id,at,took,n\na,0,60,"' + b"x" * (1 << 21), "no readable table"),
    ],
)
def test_what_is_no_trace_is_one_clear_message(tmp_path, content, said):
    with pytest.raises(BadInput, match=said) as refused:
        read(tmp_path, content, columns=MAP)
    assert "\n" not in str(refused.value)
    assert str(tmp_path / "jobs.csv") in str(refused.value)


@pytest.mark.parametrize("format", FORMATS)
def test_no_file_or_a_folder(tmp_path, format):
    with pytest.raises(BadInput, match=r"no such file|no pai_task_table"):
        read_trace(tmp_path / "nowhere", format)
    if format != "pai":
        with pytest.raises(BadInput, match="a folder"):
            read_trace(tmp_path, format)


def test_an_unknown_format_and_a_map_for_another(tmp_path):
    with pytest.raises(BadInput, match="did you mean sacct"):
        read_trace(tmp_path / "x", "sact")
    with pytest.raises(BadInput, match="for csv only"):
        read_trace(tmp_path / "x", "swf", columns={"job": "id"})


def test_the_report_prints_and_becomes_json(tmp_path):
    trace = read(tmp_path, "id,at,took,n\na,0,0,1\nb,0,5,0\n", columns=MAP)
    assert trace.report.to_dict() == {
        "file": str(tmp_path / "jobs.csv"),
        "format": "csv",
        "read": 2,
        "kept": 1,
        "dropped": {"no GPUs": {"count": 1, "first_line": 3}},
        "clamped": {"runtime under a second, taken as 1 s": {"count": 1, "first_line": 2}},
        "guessed": {},
        "skipped": {},
    }
    assert "dropped           1  no GPUs (first: line 3)" in str(trace.report)


def test_formats_are_recognised_by_their_first_line(tmp_path):
    firsts = {
        "csv": "a,b,c",
        "swf": "; Version: 2.2",
        "sacct": "JobID|State",
        "helios": "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration",
        "acme": "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration",
        "philly": "[",
        "tenure": '{"n": 1, "event": "began"}',
    }
    for format, line in firsts.items():
        (tmp_path / "file").write_text(f"\n{line}\n")
        assert detect_format(tmp_path / "file") == format
    assert detect_format(tmp_path) == "pai"
    (tmp_path / "empty").touch()
    assert detect_format(tmp_path / "empty") == "csv"
