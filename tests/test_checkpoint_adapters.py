"""Frameworks' own checkpoints in a store: back as they went in, refused where they are damaged."""

from __future__ import annotations

import multiprocessing

import pytest

from gangs import free_port
from tenure.checkpoints import Fenced, Incomplete, Store

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.slow,  # torch takes seconds to import
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning"),
]


def test_torch_save_comes_back_and_an_altered_byte_is_not_unpickled(tmp_path):
    from tenure.checkpoints.adapters import torch_file

    store = Store(str(tmp_path), "r")
    state = {"w": torch.arange(6.0), "step": 3}
    made = torch_file.save(store, 3, 1, state, 300, loader={"row": 5})
    back = torch_file.load(store, made)
    assert back["step"] == 3
    assert torch.equal(back["w"], state["w"])
    assert store.manifest(made).framework.startswith("torch 2")
    path = f"{made.path}/{torch_file.NAME}"
    data = bytearray(store.place.read(path))
    data[len(data) // 2] ^= 1
    store.place.write(path, bytes(data))
    with pytest.raises(Incomplete, match="altered"):
        torch_file.load(store, made)


def test_safetensors_come_back(tmp_path):
    pytest.importorskip("safetensors")
    from tenure.checkpoints.adapters import safetensors_file

    store = Store(str(tmp_path), "r")
    made = safetensors_file.save(store, 1, 1, {"w": torch.eye(3)}, 10)
    assert torch.equal(safetensors_file.load(store, made)["w"], torch.eye(3))


def test_an_asynchronous_dcp_save_is_committed_when_its_future_ends(tmp_path):
    from tenure.checkpoints.adapters import torch_distributed as dcp

    store = Store(str(tmp_path / "s"), "r")
    future = dcp.save_async(store, 7, 1, {"w": torch.ones(9)}, 70, scratch=str(tmp_path / "x"))
    made = future.result(60)
    assert made == store.newest_verified(deep=True)
    state = {"w": torch.zeros(9)}
    dcp.load(store, made, state, scratch=str(tmp_path / "x"))
    assert float(state["w"].sum()) == 9.0
    store.take_over(2, made)
    with pytest.raises(Fenced):
        dcp.save_async(store, 8, 1, {"w": torch.ones(9)}, 80, scratch=str(tmp_path / "x"))


def test_dcp_without_its_metadata_or_with_a_short_shard_is_not_taken_for_whole(tmp_path):
    from tenure.checkpoints.adapters import torch_distributed as dcp

    store = Store(str(tmp_path / "s"), "r")
    made = dcp.save(store, 1, 1, {"w": torch.ones(1000)}, 10, scratch=str(tmp_path / "x"))
    assert dcp.check(store, made, scratch=str(tmp_path / "x")) == []
    folder = tmp_path / "plain"
    store.download(made, str(folder))
    shard = next(folder.glob("__0_*"))
    shard.write_bytes(shard.read_bytes()[:-500])
    saving = store.begin(2, 1)
    saving.add_directory(folder)
    short = saving.commit(20)  # sound as files go; DCP knows better
    assert any("are needed" in line for line in dcp.check(store, short, scratch=str(tmp_path / "x")))
    (folder / ".metadata").unlink()
    saving = store.begin(3, 1)
    saving.add_directory(folder)
    bare = saving.commit(30)
    assert any(".metadata is missing" in line for line in dcp.check(store, bare, scratch=str(tmp_path / "x")))


def _rank(rank: int, port: int, url: str, scratch: str, attempt: int, told) -> None:
    import torch
    import torch.distributed as dist

    from tenure.checkpoints import Store, StoreError
    from tenure.checkpoints.adapters import torch_distributed as dcp

    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    try:
        made = dcp.save(
            Store(url, "r"), 5, attempt, {f"w{rank}": torch.full((50,), rank + 1.0)}, 50, scratch=scratch
        )
        told.put((rank, None if made is None else made.name))
    except StoreError as wrong:
        told.put((rank, type(wrong).__name__))
    dist.destroy_process_group()


def _two_ranks(url: str, scratch: str, attempt: int) -> dict[int, str | None]:
    port = free_port()
    spawn = multiprocessing.get_context("spawn")
    told = spawn.Queue()
    ranks = [spawn.Process(target=_rank, args=(r, port, url, scratch, attempt, told)) for r in range(2)]
    for one in ranks:
        one.start()
    said = dict(told.get(timeout=600) for _ in ranks)
    for one in ranks:
        one.join(300)
        assert one.exitcode == 0
    return said


def test_two_ranks_save_one_checkpoint_and_a_stale_gang_is_refused_on_both(tmp_path):
    from tenure.checkpoints.adapters import torch_distributed as dcp

    url, scratch = str(tmp_path / "s"), str(tmp_path / "x")
    store = Store(url, "r")
    left = store.begin(5, 1, rank=1, writers=2, token="an earlier try")
    left.add_bytes("junk.bin", b"of a process that died")
    assert _two_ranks(url, scratch, 1) == {0: "5-1.1", 1: None}
    made = store.newest_verified(deep=True)
    assert made is not None
    assert store.manifest(made).world == {"ranks": 2}
    assert dcp.check(store, made, scratch=scratch) == []
    store.take_over(2, made)
    assert _two_ranks(url, scratch, 1) == {0: "Fenced", 1: "Fenced"}
    assert store.newest_verified(deep=True) == made
