"""What Slurm's texts mean, word by word, without a Slurm."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.engines.protocol import SeenAttempt
from tenure.engines.slurm.asked import comment_words
from tenure.engines.slurm.hostlist import compressed, expanded
from tenure.engines.slurm.note import Note, read, written
from tenure.engines.slurm.rows import JOB_FIELDS, SEPARATOR, gpus_of, read_jobs, read_nodes
from tenure.engines.slurm.traces import from_completions


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("n1", ["n1"]),
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("n[001-002,010],gpu-a", ["n001", "n002", "n010", "gpu-a"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("n[9-11]x", ["n9x", "n10x", "n11x"]),
    ],
)
def test_a_list_of_nodes_is_read(text: str, names: list[str]) -> None:
    assert expanded(text) == names


@pytest.mark.parametrize(
    "text", ["n[1-", "n]1[", "n[3-1]", "n[a-b]", "n[[1]]", "a,,b", "n 1", "n[1-9999999]"]
)
def test_what_is_no_list_of_nodes_is_refused_whole(text: str) -> None:
    with pytest.raises(ValueError, match="list of nodes"):
        expanded(text)


names = st.lists(st.from_regex(r"\A[a-z]{1,3}(-[a-z])?[0-9]{0,4}\Z"), max_size=40)


@pytest.mark.slow
@given(names)
def test_the_short_form_of_a_list_names_the_same_nodes(nodes: list[str]) -> None:
    assert sorted(expanded(compressed(nodes))) == sorted(set(nodes))


words = st.text(max_size=20)
instants = st.integers(0, 2**41).map(lambda eighths: eighths / 8)


@given(
    st.builds(
        Note,
        st.integers(1, 10**6),
        st.integers(0, 10**6),
        st.dictionaries(st.from_regex(r"\An[0-9]{1,4}\Z"), st.integers(1, 8), max_size=20),
        since=instants,
        order=words,
        started=st.none() | instants,
        stop=words,
        told=instants,
        by=instants,
        signalled=st.booleans(),
        requeue=st.booleans(),
        ended=st.none() | instants,
        status=st.none() | st.integers(0, 65535),
    )
)
def test_a_note_comes_back_as_it_was_written(note: Note) -> None:
    text = written(note)
    assert " " not in text
    assert "\n" not in text
    if not note.stop:
        note = note._replace(told=0.0, by=0.0, signalled=False, requeue=False)
    assert read(text) == note


def test_a_comment_of_others_is_no_note_and_a_spoiled_one_is_said() -> None:
    assert read("") is None
    assert read("somebody else's; attempt=1") is None
    with pytest.raises(ValueError, match="spoiled"):
        read("tenure;attempt=one;restarts=0;nodes=")


@pytest.mark.parametrize(
    ("text", "gpus", "kind"),
    [
        ("", 0, ""),
        ("gres:gpu", 1, ""),
        ("gres:gpu:8", 8, ""),
        ("gres:gpu:h100:8", 8, "h100"),
        ("gres:gpu:h100", 1, "h100"),
        ("gres/gpu=16", 16, ""),
        ("gpu:h100:8(S:0-1)", 8, "h100"),
        ("gpu:a100:4(IDX:0-3),gpu:h100:4", 8, ""),
        ("gres:nic:2", 0, ""),
        ("gres:gpu:8,gres:nic:1", 8, ""),
    ],
)
def test_gpus_are_counted_in_each_spelling(text: str, gpus: int, kind: str) -> None:
    assert gpus_of(text) == (gpus, kind)


def line(**changed: str) -> str:
    plain = {
        "JobArrayID": "7", "JobID": "7", "UserName": "ann", "Partition": "tenure", "State": "PENDING",
        "Reason": "JobHeldUser", "NodeList": "", "NumNodes": "1", "MaxNodes": "1", "NumTasks": "1",
        "SubmitTime": "1796078697", "StartTime": "N/A", "EndTime": "N/A", "exit_code": "0", "RestartCnt": "0",
        "Requeue": "1", "BatchFlag": "1", "Nice": "0", "PriorityLong": "0", "TimeLimit": "1-02:03:04",
        "OverSubscribe": "OK", "Name": "x", "STDOUT": "/dev/null",
    }  # fmt: skip
    plain |= changed
    return SEPARATOR.join([*(plain.get(name, "(null)") for name, _ in JOB_FIELDS), ""])


def test_lines_are_read_strictly_and_odd_ones_counted() -> None:
    good, none = read_jobs(line() + "\n")
    assert none == 0
    assert (good[0].id, good[0].limit_s, good[0].note, good[0].priority) == ("7", 93784, None, 0)
    spoiled = [
        line(RestartCnt="many"),
        line(NodeList="n[1-"),
        line(SubmitTime=""),
        line(Requeue="perhaps"),
        line(TimeLimit="soon"),
        line(admin_comment="tenure;attempt=x"),
        line() + "more",
        "slurm_load_jobs error",
    ]
    jobs, odd = read_jobs("\n".join([line(), *spoiled, line(JobArrayID="8")]))
    assert [job.id for job in jobs] == ["7", "8"]
    assert odd == len(spoiled)


def test_odd_nodes_are_counted_and_states_are_words() -> None:
    text = SEPARATOR.join(["n1", "IDLE+DRAIN+NOT_RESPONDING", "gpu:h100:8", "none", ""])
    nodes, odd = read_nodes(f"{text}\nn2 is odd\n")
    assert (odd, len(nodes)) == (1, 1)
    assert nodes[0].states == {"idle", "drain", "not_responding"}
    assert (nodes[0].gpus, nodes[0].reason) == (8, "")


def test_a_comment_is_read_as_words_and_its_mistakes_are_named() -> None:
    assert comment_words("tenure: account=a/b min=2h kind=debug") == {
        "account": "a/b",
        "min": "2h",
        "kind": "debug",
    }
    assert comment_words("Tenure: account='a b'/c") == {"account": "a b/c"}
    assert comment_words("my own words") == {}
    for wrong, said in (
        ("tenure: minimum=2h", "did you mean min"),
        ("tenure: debug", "KEY=VALUE"),
        ("tenure: a='", "open quote"),
    ):
        with pytest.raises(ValueError, match=said):
            comment_words(wrong)


def test_the_newest_of_the_completed_jobs_of_one_id_is_taken() -> None:
    text = (
        "JobId=7 UserId=ann(1) JobState=FAILED StartTime=2026-01-01T00:00:00 EndTime=2026-01-01T00:00:10"
        " ArrayJobId=0 ArrayTaskId=4294967294 ExitCode=3:0\n"
        "JobId=9 UserId=ann(1) JobState=COMPLETED StartTime=1796078697 EndTime=1796078700"
        " ArrayJobId=8 ArrayTaskId=2 ExitCode=0:0\n"
        "JobId=7 UserId=ann(1) JobState=COMPLETED StartTime=1796078697 EndTime=1796078699 ExitCode=0:15\n"
    )
    plain = from_completions(text, SeenAttempt("7", 1, {}))
    task = from_completions(text, SeenAttempt("8_2", 1, {}))
    assert plain is not None
    assert task is not None
    assert (plain.state, plain.ended, plain.exit_code, plain.signal) == ("COMPLETED", 1796078699.0, None, 15)
    assert (task.state, task.started, task.exit_code, task.signal) == ("COMPLETED", 1796078697.0, 0, None)
    assert from_completions(text, SeenAttempt("5", 1, {})) is None
