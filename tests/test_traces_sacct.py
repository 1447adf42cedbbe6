"""`sacct --parsable2`, in the spellings that versions and sites of Slurm give it."""

from pathlib import Path

import pytest

from tenure.core.words import NEVER_S, End
from tenure.settings.errors import BadInput
from tenure.simulator.traces import Trace, read_trace
from tenure.simulator.traces.instants import duration
from tenure.simulator.traces.tres import gpus_of

DAY = "2024-05-01T"


def read(tmp_path: Path, text: str, **options) -> Trace:
    file = tmp_path / "sacct.txt"
    file.write_text(text)
    return read_trace(file, "sacct", **options)


def counts(trace: Trace, what: str) -> dict[str, tuple[int, int | None]]:
    return {reason: (found.count, found.line) for reason, found in getattr(trace.report, what).items()}


def job(trace: Trace, name: str):
    return trace.rows[trace.ids.index(name)]


HEADER = (
    "JobID|JobName|Account|User|Partition|State|Submit|Start|End|Elapsed|Timelimit|NNodes|ReqTRES|AllocTRES\n"
)
GPUS = "billing=16,cpu=16,gres/gpu=8,mem=1T,node=1"
NEVER = {"start": "Unknown", "elapsed": "00:00:00", "tres": "", "asked": GPUS}  # of a job that never ran


def row(name: str, state: str, *, start="10:00:00", elapsed="01:00:00", tres=GPUS, **keys) -> str:
    who = keys.get("who", "train|lab|ann|gpu")
    submit = keys.get("submit", "09:00:00")
    end = keys.get("end", "11:00:00")
    times = "|".join(text if text[:1].isalpha() else DAY + text for text in (submit, start, end))
    limit, nodes, asked = keys.get("limit", "2-00:00:00"), keys.get("nodes", "1"), keys.get("asked", tres)
    return f"{name}|{who}|{state}|{times}|{elapsed}|{limit}|{nodes}|{asked}|{tres}\n"


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("gres/gpu=8", 8),
        ("gres/gpu:a100=8", 8),
        ("billing=64,cpu=64,gres/gpu:h100=4,mem=500G,node=1", 4),
        ("cpu=64,gres/gpu=8,gres/gpu:a100=8", 8),
        ("gres/gpu:a100=2,gres/gpu:v100=3", 5),
        ("gres/gpu:1g.5gb=2", 2),
        ("gres/gpumem=80G,gres/gpuutil=50,gres/shard=3", 0),
        ("gpu:8", 8),
        ("gpu:a100:8", 8),
        ("gpu:a100:4,gpu:v100:2", 6),
        ("gpu", 1),
        ("gpu:a100", 1),
        ("gres:gpu:2", 2),
        ("gres/gpu:a100:2", 2),
        ("gpu:8(S:0-1)", 8),
        ("gpu:a100:8(IDX:0-3,5,7-9)", 8),
        ("PER_NODE:gpu:4", 4),
        ("craynetwork:1,gpu:2", 2),
        ("", 0),
        ("(null)", 0),
        ("billing=1,cpu=1,mem=4G,node=1", 0),
    ],
)
def test_gpus_in_all_spellings(text, gpus):
    assert gpus_of(text) == gpus


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("01:02:03", 3723),
        ("2-01:02:03", 2 * 86400 + 3723),
        ("10-00", 10 * 86400),
        ("1-02:30", 86400 + 9000),
        ("02:03", 123),
        ("02:03.456", 123.456),
        ("100:00:00", 360_000),
        ("90", 90),
        ("UNLIMITED", None),
        ("Partition_Limit", None),
        ("INVALID", None),
        ("", None),
        ("-:", None),
        ("1-2-3", None),
    ],
)
def test_durations_as_slurm_writes_them(text, seconds):
    told = duration(text)
    assert told == seconds if seconds is not None else told != told


def test_states_and_what_is_no_job_that_ran(tmp_path):
    text = HEADER + "".join(
        [
            row("1", "COMPLETED"), row("1.batch", "COMPLETED"), row("1.extern", "COMPLETED"),
            row("1.0", "COMPLETED"),
            row("2", "FAILED"),
            row("3", "CANCELLED by 1000"),
            row("4", "CANCELLED by 1000", end="10:00:00", **NEVER),
            row("5", "TIMEOUT", limit="01:00:00"),
            row("6", "TIMEOUT", limit="UNLIMITED"),
            row("7", "NODE_FAIL"),
            row("8", "OUT_OF_MEMORY"),
            row("9", "RUNNING", end="Unknown"),
            row("10", "PENDING", end="Unknown", **NEVER),
            row("11_[5-9%2]", "PENDING", end="Unknown", **NEVER),
            row("11_4", "COMPLETED", limit="Partition_Limit"),
            row("12", "COMPLETED", tres="cpu=4,mem=8G,node=1"),
            row("13", "PREEMPTED", elapsed="1-00:00:00"),
            row("14", "CANCELLED", start="09:30:00", end="09:30:00", elapsed="00:00:00"),
        ]
    )  # fmt: skip
    trace = read(tmp_path, text)
    assert trace.ids == ["1", "2", "3", "5", "6", "7", "8", "11_4", "13"]
    assert trace.rows["gpus"].tolist() == [8] * 9
    assert trace.rows["runtime_s"].tolist() == [3600] * 8 + [86400]
    ends = [End.FINISHED, End.FAILED, End.CANCELLED, End.TIMED_OUT, End.TIMED_OUT, End.NODE_FAILED,
            End.FAILED,
            End.FINISHED, End.PREEMPTED]  # fmt: skip
    assert trace.rows["end"].tolist() == ends
    assert job(trace, "5")["max_runtime_s"] == 3600
    assert not job(trace, "5")["fails"]  # its limit stops it in a replay too
    assert job(trace, "6")["max_runtime_s"] == NEVER_S
    assert job(trace, "6")["fails"]
    assert job(trace, "1")["max_runtime_s"] == 2 * 86400
    assert trace.start == "2024-05-01T09:00:00Z"
    assert trace.started_s is not None
    assert trace.started_s.tolist() == [3600] * 9
    assert counts(trace, "dropped") == {
        "array tasks that had not started": (1, 15),
        "cancelled before it started": (2, 8),
        "still running": (1, 13),
        "still waiting": (1, 14),
        "no GPUs": (1, 17),
    }
    assert counts(trace, "skipped") == {"a step of a job": (3, 3)}
    assert trace.report.guessed["time limit of the partition, not told: taken as none"].count == 1


def test_requeued_attempts_are_one_job(tmp_path):
    text = HEADER + "".join(
        [
            row("7", "PREEMPTED", start="10:00:00", end="11:00:00", elapsed="01:00:00"),
            row("7", "NODE_FAIL", submit="11:00:00", start="11:30:00", end="12:00:00", elapsed="00:30:00"),
            row("7", "COMPLETED", submit="12:00:00", start="12:30:00", end="14:30:00", elapsed="02:00:00"),
            row("8", "COMPLETED"),
            row("8", "COMPLETED"),
        ]
    )
    trace = read(tmp_path, text)
    assert trace.ids == ["7", "8"]
    assert trace.rows["runtime_s"].tolist() == [12600, 3600]
    assert trace.rows["submit_s"].tolist() == [0, 0]
    assert job(trace, "7")["end"] == End.FINISHED
    assert trace.started_s is not None
    assert trace.started_s[trace.ids.index("7")] == 3600
    assert counts(trace, "guessed") == {"requeued: its attempts are one job, of their summed runtime": (1, 4)}
    assert counts(trace, "skipped") == {"a row joined to another of its job": (2, 2)}
    assert counts(trace, "dropped") == {"the same job said twice": (1, 6)}


def test_an_id_that_slurm_used_again_months_later_is_another_job(tmp_path):
    old = row("7", "COMPLETED")
    new = row("7", "COMPLETED").replace("2024-05-01", "2024-09-01")
    trace = read(tmp_path, HEADER + old + new)
    assert trace.ids == ["7", "7~2"]
    assert "an id used before, given a new name (ID~2 …)" in trace.report.guessed


def test_a_requeued_job_that_waits_again_has_not_ended(tmp_path):
    waits = row(
        "7",
        "PENDING",
        submit="11:00:00",
        start="Unknown",
        end="Unknown",
        elapsed="00:00:00",
        tres="",
        asked=GPUS,
    )
    trace = read(tmp_path, HEADER + row("6", "COMPLETED") + row("7", "PREEMPTED") + waits)
    assert trace.ids == ["6"]
    assert trace.report.dropped["still waiting"].count == 1


def test_components_of_a_heterogeneous_job_are_one(tmp_path):
    text = HEADER + row("5+0", "COMPLETED") + row("5+1", "COMPLETED", tres="gres/gpu:a100=16", nodes="2")
    trace = read(tmp_path, text + row("5+0.batch", "COMPLETED") + row("6", "COMPLETED"))
    assert trace.ids == ["5", "6"]
    assert trace.rows["gpus"].tolist() == [24, 8]
    assert trace.nodes is not None
    assert trace.nodes.tolist() == [3, 1]
    assert counts(trace, "guessed") == {"components of a heterogeneous job, joined to one": (1, 2)}


def test_what_was_asked_for_stands_in_for_what_is_not_told(tmp_path):
    text = HEADER + row("1", "COMPLETED", tres="", asked="billing=8,gres/gpu:a100=4")
    trace = read(tmp_path, text)
    assert trace.rows["gpus"].tolist() == [4]
    assert counts(trace, "guessed") == {"no GPUs told as allocated: those asked for are taken": (1, 2)}


def test_old_versions_tell_gres_asked_for_by_node(tmp_path):
    text = (
        "JobIDRaw|Submit|Start|End|State|NNodes|ReqGRES|User\n"
        f"1|{DAY}09:00:00|{DAY}10:00:00|{DAY}11:00:00|COMPLETED|2|gpu:8|ann\n"
    )
    trace = read(tmp_path, text)
    assert (trace.rows["gpus"].tolist(), trace.tenants) == ([16], ["ann"])
    assert trace.rows["runtime_s"].tolist() == [3600]


def test_epoch_numbers_raw_columns_and_the_last_bar_of_parsable(tmp_path):
    text = (
        "JobID|Submit|Start|End|ElapsedRaw|TimelimitRaw|State|AllocGRES|\n"
        "1|1714554000|1714557600|1714561200|3600|120|COMPLETED|gpu:a100:8|\n"
        "2|1714554060|1714557600|1714561200|3600|UNLIMITED|COMPLETED|gres:gpu:2|\n"
    )
    trace = read(tmp_path, text, timezone="Asia/Tokyo")
    assert trace.start == "2024-05-01T09:00:00Z"
    assert trace.rows["submit_s"].tolist() == [0, 60]
    assert trace.rows["max_runtime_s"].tolist() == [7200, NEVER_S]
    assert trace.rows["gpus"].tolist() == [8, 2]
    assert trace.tenants == ["all"]


def test_local_times_over_the_end_of_summer_time(tmp_path):
    """New York 2024-11-03: 01:30 comes twice; a job's elapsed time is told apart from its clock times."""
    jobs = [("00:30:00", "04:00:00"), ("01:30:00", "03:00:00"), ("02:30:00", "01:00:00")]
    rows = "".join(
        f"{k}|2024-11-03T{at}|2024-11-03T{at}|2024-11-03T03:30:00|{took}|COMPLETED|gres/gpu=1\n"
        for k, (at, took) in enumerate(jobs)
    )
    header = "JobID|Submit|Start|End|Elapsed|State|AllocTRES\n"
    trace = read(tmp_path, header + rows, timezone="America/New_York")
    assert trace.rows["submit_s"].tolist() == [0, 3600, 3 * 3600]
    assert trace.rows["runtime_s"].tolist() == [14400, 10800, 3600]
    assert next(iter(trace.report.guessed.values())).count == 1


def test_bars_in_a_name_headers_again_and_windows_lines(tmp_path):
    named = row("1", "COMPLETED", who="a|b|c|lab|ann|gpu")
    text = HEADER + named + "\n" + HEADER + row("2", "COMPLETED", who="|bio|bo|gpu") + "1|2|3\n"
    trace = read(tmp_path, text.replace("\n", "\r\n"))
    assert (trace.ids, trace.tenants) == (["1", "2"], ["lab", "bio"])
    assert counts(trace, "skipped") == {"blank line": (1, 3), "the header again": (1, 4)}
    assert counts(trace, "dropped") == {"not as many cells as the header": (1, 6)}


def test_ids_of_two_clusters_do_not_meet(tmp_path):
    header = "JobID|Cluster|Submit|Start|End|State|AllocTRES\n"
    rows = "".join(
        f"1|{name}|{DAY}09:00:00|{DAY}10:00:00|{DAY}11:00:00|COMPLETED|gres/gpu=1\n"
        for name in ("east", "west")
    )
    assert read(tmp_path, header + rows).ids == ["east:1", "west:1"]
    assert read(tmp_path, header + rows.replace("west", "east")).ids == ["1"]


@pytest.mark.parametrize(("tenant", "names"), [(None, ["lab"]), ("User", ["ann"]), ("partition", ["gpu"])])
def test_who_the_tenant_is(tmp_path, tenant, names):
    assert read(tmp_path, HEADER + row("1", "COMPLETED"), tenant=tenant).tenants == names


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "header: found the columns ''"),
        ("1|2|3\n", r"with a header and the columns JobID, Submit, State, AllocTRES .or ReqTRES"),
        ("JobID|Submit|State|AllocTRES|Start\n", r"Elapsed .or ElapsedRaw, or Start and End. besides"),
        (HEADER, "the file holds no rows"),
        (HEADER + row("1", "COMPLETED", submit="Unknown"), "1 dropped: no readable submit time"),
    ],
)
def test_what_is_no_such_output(tmp_path, text, said):
    with pytest.raises(BadInput, match=said):
        read(tmp_path, text)


def test_a_tenant_that_is_no_column(tmp_path):
    with pytest.raises(BadInput, match="tenant: found 'qos', not a column of this output"):
        read(tmp_path, HEADER, tenant="qos")
