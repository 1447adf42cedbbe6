"""Each format of other clusters, with the oddities of its real files, on a few rows written out here."""

import json
import tarfile
from pathlib import Path

import pytest

from tenure.core.words import NEVER_S, End, Kind
from tenure.settings.errors import BadInput
from tenure.simulator.traces import Trace, read_trace
from tenure.simulator.traces.convert import write_parquet
from tenure.simulator.traces.sample import WRITERS, draw, write_sample
from tenure.simulator.traces.source import open_text


def read(tmp_path: Path, format: str, text: str, **options) -> Trace:
    file = tmp_path / "trace"
    file.write_text(text)
    return read_trace(file, format, **options)


def counts(trace: Trace, what: str) -> dict[str, tuple[int, int | None]]:
    return {reason: (found.count, found.line) for reason, found in getattr(trace.report, what).items()}


HELIOS = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"


def test_helios(tmp_path):
    rows = (
        "11,ua,vcX,8,32,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:42:01,2020-06-10 18:42:01,86400,60\n"
        "12,ub,vcY,16,64,2,FAILED,2020-06-09 18:41:27,2020-06-09 18:41:27,2020-06-09 18:45:36,249,0\n"
        "13,uc,vcX,0,1,1,COMPLETED,2020-06-09 18:41:28,2020-06-09 18:41:28,2020-06-17 14:15:21,675233,0\n"
        "14,ua,vcY,1,4,1,CANCELLED,2020-06-09 18:41:30,None,2020-06-09 19:00:00,0,1110\n"
        "15,ua,vcY,1,4,1,CANCELLED,2020-06-09 18:41:31,2020-06-09 18:50:00,2020-06-09 18:51:00,60,509\n"
        "16,ua,vcY,1,4,1,TIMEOUT,2020-06-09 18:41:32,2020-06-09 18:50:00,2020-06-09 18:51:00,99,508\n"
        "17,ua,vcY,1,4,1,NODE_FAIL,2020-06-09 18:41:33,,,90,508\n"
    )
    trace = read(tmp_path, "helios", HELIOS + rows, timezone="Asia/Shanghai")
    assert trace.start == "2020-06-09T10:41:01Z"
    assert trace.ids == ["11", "12", "15", "16", "17"]
    assert trace.rows["submit_s"].tolist() == [0, 26, 30, 31, 32]
    assert trace.rows["runtime_s"].tolist() == [86400, 249, 60, 60, 90]
    assert trace.tenants == ["vcX", "vcY"]
    ends = [End.FINISHED, End.FAILED, End.CANCELLED, End.TIMED_OUT, End.NODE_FAILED]
    assert trace.rows["end"].tolist() == ends
    assert trace.rows["fails"].tolist() == [False, True, False, True, True]
    assert trace.started_s is not None
    assert trace.started_s.tolist() == [60, 26, 539, 539, NEVER_S]
    assert trace.nodes is not None
    assert trace.nodes.tolist() == [1, 2, 1, 1, 1]
    assert counts(trace, "dropped") == {"no GPUs": (1, 4), "cancelled before it started": (1, 5)}
    assert counts(trace, "guessed") == {
        "no start or no end: the duration is taken": (1, 8),
        "the duration is not end − start: end − start is taken": (1, 7),
    }
    assert read(tmp_path, "helios", HELIOS + rows, tenant="user").tenants == ["ua", "ub"]


def test_helios_columns_are_named_when_they_lack(tmp_path):
    with pytest.raises(BadInput, match="found the columns 'job_id', 'vc'; allowed: a column gpu_num"):
        read(tmp_path, "helios", "job_id,vc\n1,2\n")
    with pytest.raises(BadInput, match="tenant: found 'colour'; allowed: vc, user"):
        read(tmp_path, "helios", HELIOS, tenant="colour")


def test_acme_seren_names_its_zone(tmp_path):
    text = (
        "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time\n"
        "51,u59,1,8,128,Other,FAILED,2023-03-01 00:18:22+08:00,2023-03-01 00:18:54+08:00,"
        "2023-03-01 00:20:51+08:00,117,32,936.0\n"
        "52,u60,4,32,128,Pretrain,COMPLETED,2023-02-28 17:00:00+00:00,2023-02-28 17:00:00+00:00,"
        "2023-02-28 18:00:00+00:00,3600,0,115200.0\n"
    )
    trace = read(tmp_path, "acme", text, timezone="America/New_York")
    assert trace.start == "2023-02-28T16:18:22Z"
    assert trace.rows["submit_s"].tolist() == [0, 41 * 60 + 38]
    assert trace.rows["runtime_s"].tolist() == [117, 3600]
    assert trace.tenants == ["u59", "u60"]
    assert trace.report.guessed == {}
    assert read(tmp_path, "acme", text, tenant="type").tenants == ["Other", "Pretrain"]


def test_acme_kalos_duration_holds_the_wait_so_it_is_not_taken(tmp_path):
    file = write_sample(tmp_path, "kalos", jobs=50, seed=3)
    trace = read_trace(file, "acme")
    drawn = {f"dlc{job.row:013x}": job.runtime for job in draw(50, 3)}
    assert [drawn[name] for name in trace.ids] == trace.rows["runtime_s"].tolist()
    assert trace.report.guessed["the duration is not end − start: end − start is taken"].count > 10


def philly(**keys) -> dict:
    job = {"status": "Pass", "vc": "ee9e8c", "jobid": "application_1", "user": "ce2f4c", "attempts": []}
    return {**job, "submitted_time": "2017-10-07 01:11:39", **keys}


def attempt(start: str | None, end: str | None, *machines: int) -> dict:
    detail = [{"ip": f"m{k}", "gpus": [f"gpu{g}" for g in range(n)]} for k, n in enumerate(machines)]
    day = "2017-10-07 "
    return {
        "start_time": start and day + start,
        "end_time": end and day + end,
        "detail": detail,
    }


def test_philly_sums_attempts(tmp_path):
    grew = [attempt("01:00:00", "02:00:00", 2), attempt("02:00:00", "03:00:00", 4)]
    jobs = [
        philly(attempts=[attempt("01:12:00", "01:13:00", 8), attempt("01:13:30", "02:13:30", 8)]),
        philly(jobid="application_2", status="Killed", attempts=[attempt("01:12:00", "01:12:10", 8, 4)]),
        philly(jobid="never", status="Killed"),
        philly(jobid="running", attempts=[attempt("01:12:00", "01:13:00", 8), attempt("02:00:00", None, 8)]),
        philly(jobid="gap", status="Failed",
               attempts=[attempt(None, None), attempt("03:00:00", "04:00:00", 1)]),
        philly(jobid="grew", vc="aa", attempts=grew),
        philly(jobid="None", submitted_time="None", attempts=[attempt("01:00:00", "02:00:00", 2)]),
    ]  # fmt: skip
    trace = read(tmp_path, "philly", json.dumps(jobs, indent=2))
    assert trace.ids == ["application_1", "application_2", "gap", "grew"]
    assert trace.rows["runtime_s"].tolist() == [3660, 10, 3600, 7200]
    assert trace.rows["gpus"].tolist() == [8, 12, 1, 4]
    assert trace.rows["end"].tolist() == [End.FINISHED, End.CANCELLED, End.FAILED, End.FINISHED]
    assert trace.tenants == ["ee9e8c", "aa"]
    assert trace.started_s is not None
    assert trace.started_s.tolist() == [21, 21, 6501, -699]
    assert trace.nodes is not None
    assert trace.nodes.tolist() == [1, 2, 1, 1]
    dropped = {reason: count for reason, (count, _) in counts(trace, "dropped").items()}
    assert dropped == {
        "no attempt: it never ran": 1,
        "its last attempt had not ended": 1,
        "no readable submit time": 1,
    }
    assert trace.report.guessed["an attempt without its times, left out"].count == 1
    assert trace.report.guessed["attempts of different sizes: the largest is taken"].count == 1


def test_philly_lines_are_those_of_the_file_and_one_job_a_line_is_known(tmp_path):
    jobs = [philly(jobid=f"j{k}", attempts=[attempt("01:12:00", "01:13:00", k)]) for k in range(3)]
    pretty = read(tmp_path, "philly", json.dumps(jobs, indent=1))
    assert pretty.report.dropped["no GPUs"].line == 2
    lines = read(tmp_path, "philly", "\n".join(map(json.dumps, jobs)) + "\n")
    assert lines.ids == pretty.ids == ["j1", "j2"]
    assert lines.report.dropped["no GPUs"].line == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[{'jobid': 1}]", "line 1: found no JSON|line 1: found the end"),
        ('[{"jobid": "a", "attempts": [', "the end of the file within a value"),
        ("[]", "the file holds no rows"),
        ("", "the file holds no rows"),
        ('{"a": 1}', "line 1: found the keys a; allowed: jobs with jobid"),
        ("[" * 100_000, "no JSON|the end of the file"),
        ("[1, 2, {}]", "no job .3 dropped|the keys"),
    ],
)
def test_what_is_no_philly_log(tmp_path, text, said):
    with pytest.raises(BadInput, match=said):
        read(tmp_path, "philly", text)


def pai(folder: Path, jobs: str, tasks: str, instances: str | None = None) -> Path:
    (folder / "pai_job_table.csv").write_text(jobs)
    (folder / "pai_task_table.csv").write_text(tasks)
    if instances is not None:
        (folder / "pai_instance_table.csv").write_text(instances)
    return folder


PAI_JOBS = (
    "aa,i1,u1,Terminated,1000.0,2000.0\n"
    "bb,i2,u2,Failed,1010.0,1500.0\n"
    "cc,i3,u1,Running,1020.0,\n"
    "dd,i4,u1,Terminated,1030.0,1400.0\n"
    "ee,i5,u1,Terminated,,1600.0\n"
    "ff,i6,u1,Terminated,1050.0,1700.0\n"
    "gg,i7,u1,Terminated,1060.0,1070.0\n"
)
PAI_TASKS = (
    "aa,ps,1.0,Terminated,1090.0,2005.0,600.0,29.296875,,\n"
    "aa,worker,2.0,Terminated,1100.0,1900.0,600.0,29.296875,100.0,V100\n"
    "bb,tensorflow,5.0,Failed,1010.0,1500.0,600.0,29.296875,50.0,MISC\n"
    "cc,tensorflow,1.0,Running,1020.0,,600.0,29.296875,100.0,MISC\n"
    "dd,tensorflow,1.0,Terminated,1030.0,1400.0,600.0,29.296875,0.0,\n"
    "ee,tensorflow,1.0,Terminated,1500.0,1600.0,600.0,29.296875,25.0,T4\n"
    "ff,worker,1.0,Terminated,,,600.0,29.296875,100.0,T4\n"
    "short,row\n"
)
PAI_INSTANCES = (
    "ff,worker,n1,w1,i6,Terminated,1200.0,1650.0,m1\nff,worker,n2,w2,i6,Terminated,1190.0,1660.0,m1\n"
)


def test_pai_joins_its_tables(tmp_path):
    trace = read_trace(pai(tmp_path, PAI_JOBS, PAI_TASKS, PAI_INSTANCES), "pai")
    assert trace.ids == ["aa", "bb", "ff", "ee"]
    assert trace.rows["submit_s"].tolist() == [1000, 1010, 1050, 1500]
    assert trace.rows["runtime_s"].tolist() == [800, 490, 470, 100]
    assert trace.rows["gpus"].tolist() == [2, 3, 1, 1]
    assert trace.rows["end"].tolist() == [End.FINISHED, End.FAILED, End.FINISHED, End.FINISHED]
    assert trace.start is None
    assert trace.tenants == ["u1", "u2"]
    assert trace.started_s is not None
    assert trace.started_s.tolist() == [1100, 1010, 1190, 1500]
    assert counts(trace, "dropped") == {"had not ended": (1, 3), "no GPUs": (2, 4)}
    assert counts(trace, "clamped") == {"parts of a GPU, rounded up": (2, 2)}
    assert counts(trace, "guessed") == {
        "the job's start_time is taken for its submission": (3, 1),
        "no start_time: its first task's start is taken for its submission": (1, 5),
    }
    assert counts(trace, "skipped") == {"a task's row that does not fit, left out": (1, 8)}


def test_pai_without_instances_takes_the_jobs_own_end(tmp_path):
    trace = read_trace(pai(tmp_path, PAI_JOBS, PAI_TASKS) / "pai_job_table.csv", "pai")
    assert trace.rows["runtime_s"].tolist() == [800, 490, 650, 100]
    assert trace.report.guessed["its tasks have no end: the job's own is taken"].count == 1


def test_pai_headers_may_be_there(tmp_path):
    header = "job_name,inst_id,user,status,start_time,end_time\n"
    trace = read_trace(pai(tmp_path, header + PAI_JOBS, PAI_TASKS, PAI_INSTANCES), "pai")
    assert (len(trace), trace.report.read) == (4, 7)


def test_original_archives_are_read_as_they_come(tmp_path):
    folder = pai(tmp_path, PAI_JOBS, PAI_TASKS, PAI_INSTANCES)
    plain = read_trace(folder, "pai")
    for file in sorted(folder.iterdir()):
        with tarfile.open(folder / f"{file.stem}.tar.gz", "w:gz") as archive:
            archive.add(file, f"./{file.name}")
        file.unlink()
    packed = read_trace(folder, "pai")
    assert packed.ids == plain.ids
    assert (packed.rows == plain.rows).all()


def test_philly_is_found_in_its_archive(tmp_path):
    log = write_sample(tmp_path, "philly", jobs=20)
    (tmp_path / "cluster_gpu_util").write_text("time,machineId\n")
    with tarfile.open(tmp_path / "trace-data.tar.gz", "w:gz") as archive:
        for name in ("cluster_gpu_util", "cluster_job_log"):
            archive.add(tmp_path / name, f"trace-data/{name}")
    assert read_trace(tmp_path / "trace-data.tar.gz", "philly").ids == read_trace(log, "philly").ids
    with pytest.raises(BadInput, match="no file named like 'pai_job_table' in the archive"):
        with open_text(tmp_path / "trace-data.tar.gz", "pai_job_table"):
            pass


def test_pai_tells_which_table_lacks(tmp_path):
    (tmp_path / "pai_job_table.csv").write_text(PAI_JOBS)
    with pytest.raises(BadInput, match=r"no pai_task_table\.csv there"):
        read_trace(tmp_path, "pai")


def test_swf(tmp_path):
    lines = [
        "; Computer: none", "; UnixStartTime: 1027839845", ";   MaxJobs: 6", "",
        "1 0 10 100 4 -1 -1 8 3600 -1 1 7 3 -1 2 -1 -1 -1",
        "2 5 -1 100 -1 -1 -1 8 -1 -1 0 8 3 -1 2 -1 -1 -1",
        "3 6 0 -1 4 -1 -1 4 3600 -1 5 7 4 -1 2 -1 -1 -1",
        "4 7.5 0 0 4 -1 -1 4 3600 -1 5 -1 4 -1 2 -1 -1 -1",
        "5 8 0 9 0 -1 -1 -1 3600 -1 1 7 4 -1 2 -1 -1 -1",
        "6 9 0 9 0",
        "1 0 10 60 4 -1 -1 8 3600 -1 2 7 3 -1 2 -1 -1 -1",
        "1 0 10 40 4 -1 -1 8 3600 -1 3 7 3 -1 2 -1 -1 -1",
    ]  # fmt: skip
    text = "\r\n".join(lines)
    trace = read(tmp_path, "swf", text)
    assert trace.ids == ["1", "2", "4"]
    assert trace.start == "2002-07-28T07:04:05Z"
    assert trace.rows["submit_s"].tolist() == [0, 5, 8]
    assert trace.rows["gpus"].tolist() == [4, 8, 4]
    assert trace.rows["runtime_s"].tolist() == [100, 100, 1]
    assert trace.rows["max_runtime_s"].tolist() == [3600, NEVER_S, 3600]
    assert trace.rows["end"].tolist() == [End.FINISHED, End.FAILED, End.CANCELLED]
    assert trace.tenants == ["user7", "user8", "unnamed"]
    assert trace.started_s is not None
    assert trace.started_s.tolist() == [10, NEVER_S, 8]
    assert counts(trace, "dropped") == {
        "no runtime: it never ran, or had not ended": (1, 7),
        "no GPUs": (1, 9),
        "not 18 numbers in a line": (1, 10),
        "a part of a job that another line tells whole": (2, 11),
    }
    assert counts(trace, "guessed") == {
        "no allocated processors, taken as requested": (1, 6),
        "no tenant named, given to 'unnamed'": (1, 8),
    }
    assert counts(trace, "skipped") == {"blank line": (1, 4)}
    assert read(tmp_path, "swf", text, tenant="group").tenants == ["group3", "group4"]
    assert read(tmp_path, "swf", text, tenant="queue").tenants == ["queue2"]


def story(*events: dict) -> str:
    return "".join(json.dumps({"n": n, **event}) + "\n" for n, event in enumerate(events, 1))


def job(event: str, t: int, name: str, **keys) -> dict:
    return {"t": t, "event": event, "job": name, "account": "language/olmo", **keys}


def test_a_story_becomes_the_work_it_did(tmp_path):
    asked = {"gpus": 8, "min_runtime_s": 600, "resumable": True, "kind": "debug"}
    text = story(
        {"t": 0, "event": "began", "lab": "x", "start": "2026-01-05T00:00:00Z"},
        job("submitted", 0, "a", **asked),
        job("started", 10, "a", attempt=1, nodes={"n1": 8}),
        job("submitted", 20, "b", gpus=16, min_runtime_s=0, resumable=False),
        job("stopped", 110, "a", attempt=1, end="preempted", held_gpu_s=800, lost_gpu_s=160),
        job("requeued", 110, "a", attempt=1),
        job("started", 110, "b", attempt=1, nodes={"n1": 8, "n2": 8}),
        job("stopped", 210, "b", attempt=1, end="failed", held_gpu_s=1600, lost_gpu_s=0),
        job("started", 210, "a", attempt=2, nodes={"n2": 8}),
        job("stopped", 310, "a", attempt=2, end="finished", held_gpu_s=800, lost_gpu_s=0),
        job("submitted", 320, "c", gpus=8),
        job("cancelled", 330, "c", by="ann"),
        job("submitted", 340, "d", gpus=8),
        job("started", 350, "d", attempt=1, nodes={"n1": 8}),
    )
    trace = read(tmp_path, "tenure", text)
    assert trace.ids == ["a", "b"]
    assert trace.start == "2026-01-05T00:00:00Z"
    assert trace.rows["runtime_s"].tolist() == [180, 100]
    assert trace.rows["min_runtime_s"].tolist() == [600, 0]
    assert trace.rows["kind"].tolist() == [Kind.DEBUG, Kind.BATCH]
    assert trace.rows["resumable"].tolist() == [True, False]
    assert trace.rows["fails"].tolist() == [False, True]
    assert trace.tenants == ["language/olmo"]
    assert trace.started_s is not None
    assert trace.started_s.tolist() == [10, 110]
    assert counts(trace, "dropped") == {
        "cancelled before it started": (1, 11),
        "still waiting or running when the story ended": (1, 13),
    }


def test_a_file_that_is_no_story(tmp_path):
    with pytest.raises(BadInput, match="found the keys a; allowed: events of a story"):
        read(tmp_path, "tenure", '{"a": 1}\n')


@pytest.mark.parametrize("name", WRITERS)
def test_samples_hold_the_jobs_that_were_drawn(tmp_path, name):
    """Whatever the format, the same made-up jobs come back: sizes, runtimes, order, distances."""
    trace = read_trace(write_sample(tmp_path, name, jobs=120, seed=5), "acme" if name == "kalos" else name)
    drawn = [job for job in draw(120, 5) if job.gpus]
    if name == "helios":  # some of its cancelled jobs never started
        drawn = [job for job in drawn if not (job.state == "CANCELLED" and job.row % 7 == 0)]
    first = drawn[0].submit - int(trace.rows["submit_s"][0])
    told = sorted(zip(trace.rows["submit_s"] + first, trace.rows["runtime_s"], trace.rows["gpus"]))
    assert told == sorted((job.submit, job.runtime, job.gpus) for job in drawn)
    if trace.started_s is not None:
        assert sorted(trace.started_s + first) == sorted(job.start for job in drawn)


@pytest.mark.parametrize("name", WRITERS)
def test_parquet_keeps_everything(tmp_path, name):
    trace = read_trace(write_sample(tmp_path, name, jobs=80, seed=7), "acme" if name == "kalos" else name)
    write_parquet(trace, tmp_path / "trace.parquet")
    again = read_trace(tmp_path / "trace.parquet", "tenure")
    assert again.ids == trace.ids
    assert (again.rows == trace.rows).all()
    assert (again.tenants, again.start) == (trace.tenants, trace.start)
    for name in ("started_s", "nodes"):
        one, other = getattr(again, name), getattr(trace, name)
        assert (one is None) == (other is None)
        assert one is None or (one == other).all()


def test_another_parquet_is_refused(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    with pytest.raises(BadInput, match="allowed: a trace that `tenure trace convert` wrote"):
        read_trace(tmp_path / "other.parquet", "tenure")
    with pytest.raises(BadInput, match="cannot be written"):
        write_parquet(read_trace(write_sample(tmp_path, "csv"), "csv"), tmp_path / "no" / "folder.parquet")


@pytest.mark.parametrize("name", WRITERS)
def test_samples_are_the_same_for_the_same_seed(tmp_path, name):
    one, two = write_sample(tmp_path / "1", name, seed=4), write_sample(tmp_path / "2", name, seed=4)
    files = [file.name for file in one.iterdir()] if one.is_dir() else [""]
    for file in files:
        assert (one / file).read_bytes() == (two / file).read_bytes()


# --- rows as their owners print them in the descriptions of their traces ------------------------------


def test_rows_printed_in_the_description_of_helios(tmp_path):
    rows = (
        "1425511,uXBbc,vcJkd,1,1,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,"
        "2020-06-10 04:55:09,36848,0\n"
        "1425512,uVMrF,vchbv,4,16,1,FAILED,2020-06-09 18:41:27,2020-06-09 18:41:27,"
        "2020-06-09 18:45:36,249,0\n"
        "1425513,uzqls,vcpDC,1,1,1,CANCELLED,2020-06-09 18:41:28,2020-06-09 18:41:28,"
        "2020-06-17 14:15:21,675233,0\n"
    )
    trace = read(tmp_path, "helios", HELIOS + rows)
    assert trace.rows["runtime_s"].tolist() == [36848, 249, 675233]
    assert trace.rows["gpus"].tolist() == [1, 4, 1]
    assert trace.rows["end"].tolist() == [End.FINISHED, End.FAILED, End.CANCELLED]
    assert not trace.report.dropped


def test_rows_printed_in_the_description_of_acme(tmp_path):
    seren = (
        "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time\n"
        "5778432,u5907,1,8,128,Other,FAILED,2023-03-01 00:18:22+08:00,2023-03-01 00:18:54+08:00,"
        "2023-03-01 00:20:51+08:00,117,32,936.0\n"
        "5778469,u5907,1,8,128,Other,COMPLETED,2023-03-01 00:23:58+08:00,2023-03-01 00:24:11+08:00,"
        "2023-03-01 01:09:04+08:00,2693,13,21544.0\n"
    )
    trace = read(tmp_path, "acme", seren)
    assert trace.start == "2023-02-28T16:18:22Z"
    assert trace.rows["runtime_s"].tolist() == [117, 2693]
    assert (trace.rows["runtime_s"] * trace.rows["gpus"]).tolist() == [936, 21544]
    kalos = (
        "job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,"
        "start_time,end_time,fail_time,stop_time,duration,queue,gpu_time\n"
        "dlctk696s0jbvitv,uf794,8,64,960,1000,100.0,Other,FAILED,2023-05-17 11:00:58+00:00,"
        "2023-05-17 11:01:08+00:00,2023-05-17 11:01:16+00:00,2023-05-17 11:01:16+00:00,,18,10.0,1152.0\n"
        "dlc1t2ypl09b8qtp,uf794,8,64,960,1000,100.0,Other,CANCELLED,2023-05-17 11:28:42+00:00,"
        "2023-05-17 11:28:54+00:00,2023-05-17 11:30:04+00:00,,2023-05-17 11:30:04+00:00,82,12.0,5248.0\n"
    )
    trace = read(tmp_path, "acme", kalos)
    assert trace.rows["runtime_s"].tolist() == [8, 70]  # its duration holds the time in the queue too
    assert trace.rows["gpus"].tolist() == [64, 64]
    assert trace.rows["end"].tolist() == [End.FAILED, End.CANCELLED]


def test_the_job_printed_in_the_description_of_philly(tmp_path):
    eight = [{"ip": "m47", "gpus": [f"gpu{n}" for n in range(8)]}]
    job = {
        "status": "Pass",
        "vc": "ee9e8c",
        "jobid": "application_1506638472019_14199",
        "attempts": [
            {"start_time": "2017-10-07 01:12:09", "end_time": "2017-10-07 01:13:23", "detail": eight},
            {"start_time": "2017-10-07 01:13:30", "end_time": "2017-10-09 06:53:12", "detail": eight},
        ],
        "submitted_time": "2017-10-07 01:11:39",
        "user": "ce2f4c",
    }
    none = {**job, "jobid": "b", "attempts": [{"start_time": "None", "end_time": None, "detail": eight}]}
    trace = read(tmp_path, "philly", json.dumps([job, none, {**job, "jobid": "c", "attempts": []}]))
    assert trace.ids == ["application_1506638472019_14199"]
    assert trace.rows["runtime_s"].tolist() == [74 + 193182]
    assert trace.rows["gpus"].tolist() == [8]
    assert sum(found.count for found in trace.report.dropped.values()) == 2


def test_rows_of_pai_under_the_headers_of_its_own_files(tmp_path):
    """Entries printed in its description, under the three `.header` files beside its tables."""
    job = (
        "job_name,inst_id,user,status,start_time,end_time\n"
        "4b3f,8cb3,58540f191766,Terminated,4550879.0,4551416.0\n"
    )
    task = (
        "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type\n"
        "4b3f,tensorflow,1.0,Terminated,4550890.0,4551400.0,600.0,29.296875,50.0,MISC\n"
        "4b3f,ps,1.0,Terminated,4550880.0,4551416.0,600.0,29.296875,,\n"
    )
    (tmp_path / "pai_job_table.csv").write_text(job)
    (tmp_path / "pai_task_table.csv").write_text(task)
    trace = read_trace(tmp_path, "pai")
    assert trace.rows["gpus"].tolist() == [1]
    assert trace.rows["runtime_s"].tolist() == [510]
    assert trace.tenants == ["58540f191766"]
