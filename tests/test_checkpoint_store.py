"""What a store promises: whole or absent, one winner, no stale attempt, nothing good thrown away."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stores import KINDS, again, open_new, s3_server, save
from tenure.checkpoints import (
    AlreadyCommitted,
    Checkpoint,
    Fenced,
    Incomplete,
    Keep,
    NothingUsable,
    Store,
    StoreError,
    StoreUnavailable,
)
from tenure.checkpoints.retention import judge
from tenure.service.checkpoints import verified


@pytest.fixture(scope="module")
def s3():
    with s3_server() as options:
        yield options


@pytest.fixture(params=KINDS)
def store(request, tmp_path, s3):
    return open_new(request.param, tmp_path, s3)


def altered(store: Store, path: str, change) -> None:
    """Somebody alters a file behind our back."""
    store.place.write(path, change(store.place.read(path)))


@pytest.mark.slow
def test_what_is_saved_comes_back_with_all_that_was_said_of_it(store, s3):
    saving = store.begin(12, 3)
    saving.add_bytes("weights/0.bin", b"abc")
    made = saving.commit(
        4096,
        parent=8,
        window="cb-1",
        framework="ours",
        world={"ranks": 2},
        loader={"shard": 4, "row": 77},
        final=True,
    )
    there = again(store, s3)
    assert there.newest_verified(deep=True) == made
    told = there.manifest(made)
    assert (told.tokens, told.parent, told.window, told.final) == (4096, 8, "cb-1", True)
    assert (told.world, told.loader, told.framework) == ({"ranks": 2}, {"shard": 4, "row": 77}, "ours")
    assert there.read(made, "weights/0.bin") == b"abc"
    assert json.loads(store.place.read("LATEST"))["step"] == 12


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda data: data[:-1], "bytes"),
        (lambda data: data[:5] + bytes([data[5] ^ 1]) + data[6:], "altered"),
    ],
    ids=["a truncated shard", "a corrupted byte"],
)
def test_a_damaged_newest_is_passed_over_for_the_one_before(store, change, word):
    before = save(store, 1)
    damaged = save(store, 2)
    altered(store, f"{damaged.path}/model/a.bin", change)
    assert any(word in line for line in store.verify(damaged, deep=True))
    assert store.newest_verified(deep=True) == before
    with pytest.raises(Incomplete, match="altered"):
        store.read(damaged, "model/a.bin")


@pytest.mark.slow
def test_an_altered_manifest_or_commit_is_no_checkpoint(store):
    before = save(store, 1)
    altered_manifest, altered_commit = save(store, 2), save(store, 3)
    altered(store, f"{altered_manifest.path}/MANIFEST.json", lambda data: data.replace(b"200", b"300"))
    altered(store, "COMMITTED/3", lambda data: data[: len(data) // 2])
    assert store.newest_verified() == before
    assert {one.step: one.state for one in store.found() if one.state != "committed"} == {3: "unreadable"} | {
        one.step: one.state
        for one in store.found()
        if one.name == altered_commit.name and one.state != "committed"
    }


def test_where_nothing_can_be_used_nobody_is_told_to_begin_at_step_0(store):
    assert store.newest_verified() is None
    only = save(store, 5)
    altered(store, f"{only.path}/b.bin", lambda data: b"")
    with pytest.raises(NothingUsable, match="step 0"):
        store.newest_verified()


def test_an_older_attempt_is_kept_out_from_its_first_step_to_its_last(store):
    first = save(store, 10, attempt=1)
    late = store.begin(11, 1)
    late.add_bytes("model/a.bin", b"late")
    store.take_over(2, first)
    with pytest.raises(Fenced, match="attempt 2"):
        late.commit(1100)
    with pytest.raises(Fenced):
        store.begin(12, 1)
    with pytest.raises(Fenced):
        store.take_over(1, first)
    assert [one.name for one in store.checkpoints()] == ["10-1"]


@pytest.mark.slow
def test_a_commit_that_slips_in_just_after_the_fence_does_not_count_and_blocks_nobody(store, s3):
    first = save(store, 10, attempt=1)
    slipped = store.begin(11, 1)
    slipped.add_bytes("model/a.bin", b"slipped")
    # the stale writer's last look at the fences came before the new attempt's
    from tenure.checkpoints import fence

    look = fence.check
    fence.check = lambda place, attempt: None
    try:
        again(store, s3).take_over(2, first)
        slipped.commit(1100)
    finally:
        fence.check = look
    assert store.newest_verified() == first
    assert {one.name: one.state for one in store.found()}["11-1"] == "void"
    ours = save(store, 11, attempt=2)
    assert store.newest_verified(deep=True) == ours


@pytest.mark.slow
def test_of_two_who_commit_one_step_one_wins_and_the_other_is_told(store, s3):
    barrier = threading.Barrier(2)

    def racing(writer: int) -> str:
        mine = again(store, s3)
        saving = mine.begin(7, 1)
        barrier.wait(180)
        saving.add_bytes("model/a.bin", bytes([writer]) * 50)
        try:
            return saving.commit(700).name
        except AlreadyCommitted:
            return "told"

    with ThreadPoolExecutor(2) as pool:
        said = sorted(pool.map(racing, (1, 2)))
    assert said in (["7-1", "told"], ["7-1.1", "told"])
    assert store.newest_verified(deep=True).name == said[0]


def test_a_commit_whose_answer_was_lost_is_the_same_commit_when_repeated(store):
    saving = store.begin(3, 1)
    saving.add_bytes("a", b"1")
    stamp = saving._now()
    saving._now = lambda: stamp
    assert saving.commit(5) == saving.commit(5)


def test_no_rank_is_left_out_and_no_part_of_an_earlier_try_is_taken_for_this_one(store, s3):
    old = store.begin(4, 1, rank=1, writers=2, token="start 1")
    old.add_bytes("1.bin", b"of the process that died")
    old.done()
    first = again(store, s3).begin(4, 1, rank=0, writers=2, token="start 2")
    first.add_bytes("0.bin", b"zero")
    with pytest.raises(Incomplete, match="ranks 1"):
        first.commit(400, patience_s=0.0)
    second = again(store, s3).begin(4, 1, rank=1, writers=2, token="start 2")
    second.add_bytes("1.bin", b"one")
    second.done()
    made = first.commit(400, patience_s=60.0)
    assert store.read(made, "1.bin") == b"one"


def test_two_ranks_that_write_one_name_are_refused(store):
    for rank in (1, 0):
        saving = store.begin(4, 1, rank=rank, writers=2)
        saving.add_bytes("same.bin", bytes([rank]))
        saving.done()
    with pytest.raises(Incomplete, match=r"two writers wrote same\.bin"):
        saving.commit(1, patience_s=0.0)


@pytest.mark.parametrize(
    "name", ["", "/etc/passwd", "../x", "a/../../x", "a//b", "MANIFEST.json", "PART-0.json", "a\\b"]
)
def test_no_file_leaves_its_checkpoint_or_stands_for_the_stores_own(name, tmp_path):
    saving = Store(str(tmp_path), "r").begin(1, 1)
    with pytest.raises(ValueError, match=r"name|own"):
        saving.add_bytes(name, b"x")


@pytest.mark.parametrize("run", ["", "a/b", "..", ".hidden", "x" * 101])
def test_no_run_is_named_so_that_it_leaves_the_store(run, tmp_path):
    with pytest.raises(ValueError, match="cannot name a run"):
        Store(str(tmp_path), run)


@pytest.mark.slow
def test_a_store_that_is_not_there_is_unavailable_and_an_unknown_one_is_said_to_be(s3):
    with pytest.raises(StoreUnavailable):
        Store("s3://kept/x", "r", s3 | {"endpoint_url": "http://127.0.0.1:9"}).newest_verified()
    with pytest.raises(StoreUnavailable):
        Store("s3://nobody-has-this/x", "r", s3).begin(1, 1).add_bytes("a", b"1")
    with pytest.raises(StoreError, match="gopher"):
        Store("gopher://x", "r")


@pytest.mark.slow
def test_pruning_keeps_finals_the_last_and_what_is_read(store):
    made = [save(store, step, final=step == 1) for step in range(1, 7)]
    store.reading(made[1], "the-next-window", 3600)
    told = store.prune(Keep(last=2), reading=[made[2].name])
    assert [one.step for one in store.checkpoints()] == [1, 2, 3, 5, 6]
    assert told.deleted == ["4-1"]
    assert {one.checkpoint.step: one.why for one in told.verdicts}[2] == "being read"


@pytest.mark.slow
def test_pruning_counts_as_good_only_what_verifies_and_keeps_all_where_nothing_does(store):
    for step in (1, 2, 3):
        save(store, step)
    for step in (2, 3):
        altered(store, f"ckpt/{step}-1/b.bin", lambda data: b"")
    store.prune(Keep(last=1))
    assert [one.step for one in store.checkpoints()] == [1, 2, 3]
    altered(store, "ckpt/1-1/b.bin", lambda data: b"")
    with pytest.raises(NothingUsable, match="all are kept"):
        store.prune(Keep(last=1))
    assert len(store.place.files("ckpt")) == 15


@pytest.mark.slow
def test_nothing_is_let_go_before_a_newer_one_that_stays_was_read_in_full(store):
    for step in (1, 2, 3):
        save(store, step)
    for step in (2, 3):  # of the right size, so that sizes do not tell
        altered(store, f"ckpt/{step}-1/b.bin", lambda data: bytes(len(data)))
    assert store.prune(Keep(last=1), dry=True).deleted == []
    assert not store.place.files("VERIFIED")
    told = store.prune(Keep(last=1))
    assert told.deleted == []
    assert [one.why for one in told.verdicts] == [*["does not verify: a person should look"] * 2, "the last"]
    assert store.newest_verified(deep=True).step == 1
    save(store, 4)
    assert "1-1" in store.prune(Keep(last=1)).deleted
    assert store.newest_verified(deep=True).step == 4


@pytest.mark.slow
def test_one_that_was_read_in_full_today_is_not_read_again_to_prune_unless_it_was_found_unsound(store):
    for step in (1, 2):
        save(store, step)
    store.note_sound(store.checkpoints()[1])
    read = []
    assert store.prune(Keep(last=1), dry=True, progress=lambda part, doing: read.append(doing)).deleted == [
        "1-1"
    ]
    assert not any("in full" in doing for doing in read)
    altered(store, "ckpt/2-1/b.bin", lambda data: bytes(len(data)))
    verified(store, None, deep=True)
    assert store.prune(Keep(last=1)).deleted == []


@pytest.mark.slow
def test_a_save_under_way_is_left_alone_until_its_grace_is_over_by_the_stores_own_clock(store):
    save(store, 1)
    going = store.begin(2, 1)
    going.add_bytes("model/a.bin", b"half")
    store._now = lambda: 4e9  # this machine's clock is a lifetime ahead
    assert store.prune(Keep(grace_s=3600)).deleted == []
    assert store.prune(Keep(grace_s=-1)).deleted == ["2-1"]
    assert {one.name for one in store.found()} == {"1-1"}


def test_what_looks_like_nobodys_is_never_deleted(store):
    save(store, 1)
    store.place.write("ckpt/notes.txt", b"mine")
    store.place.write("ckpt/best-model/weights.bin", b"mine")
    store.place.write("elsewhere/x", b"mine")
    store.prune(Keep(last=1, grace_s=-1))
    assert store.place.read("ckpt/notes.txt") == b"mine"
    assert store.place.read("ckpt/best-model/weights.bin") == b"mine"
    assert store.place.read("elsewhere/x") == b"mine"


def _checkpoint(step: int, final: bool) -> Checkpoint:
    return Checkpoint(step, 1, step, 1, 1, step * 1800.0, final, f"ckpt/{step}-1", "")


@given(
    st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=30),
    st.integers(1, 5),
    st.one_of(st.none(), st.floats(600, 20_000)),
)
def test_whatever_the_rule_the_newest_sound_one_and_every_final_stay(drawn, last, every_s):
    everything = [_checkpoint(step, final) for step, (final, _) in enumerate(drawn)]
    sound = [one for one, (_, good) in zip(everything, drawn) if good]
    unsound = [one for one in everything if one not in sound]
    verdicts = judge(sound, unsound, Keep(last=last, every_s=every_s))
    kept = {one.checkpoint.step for one in verdicts if one.kept}
    assert len(verdicts) == len(everything)
    assert {one.step for one in sound[-last:]} <= kept
    assert {one.step for one in everything if one.final} <= kept
    assert {one.step for one in unsound} <= kept
    if every_s is not None:
        stretches = {one.at // every_s for one in sound}
        assert stretches == {one.at // every_s for one in sound if one.step in kept}


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("save"), st.integers(1, 6), st.booleans()),
            st.tuples(st.just("take over"), st.none(), st.none()),
            st.tuples(st.just("prune"), st.integers(1, 3), st.none()),
            st.tuples(st.just("damage"), st.integers(0, 5), st.none()),
        ),
        max_size=14,
    )
)
def test_any_order_of_saves_attempts_prunings_and_damage_resumes_as_a_plain_list_would(tmp_path, orders):
    store = open_new("folder", tmp_path, None)
    attempt, step, good, bad = 1, 0, [], []
    for word, number, final in orders:
        if word == "save":
            step += number
            good.append(save(store, step, attempt, final=final))
        elif word == "take over":
            attempt += 1
            store.take_over(attempt, good[-1] if good else None)
            step = good[-1].step if good else 0
            bad = [one for one in bad if one.step <= step]
        elif word == "prune" and good:
            store.prune(Keep(last=number))
            good = [one for place, one in enumerate(good) if place >= len(good) - number or one.final]
        elif word == "damage" and good:
            one = good.pop(min(number, len(good) - 1))
            bad.append(one)
            altered(store, f"{one.path}/b.bin", lambda data: b"")
    if good:
        assert store.newest_verified() == good[-1]
        assert [one.name for one in store.checkpoints() if not store.verify(one)] == [
            one.name for one in good
        ]
    elif bad:
        with pytest.raises(NothingUsable):
            store.newest_verified()
