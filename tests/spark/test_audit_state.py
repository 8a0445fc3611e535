from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from pybroker.cli.spark_audit import command
from pybroker.model import Offset
from pybroker.spark.audit.folder import check_not_followed, mended, replacing, write_summary
from pybroker.spark.audit.options import AuditOptions, Incremental
from pybroker.spark.audit.passes import tried
from pybroker.spark.audit.sources import Tier
from pybroker.spark.audit.state import Position, State, check_identity, next_extents, shortened, watermark
from pybroker.spark.cluster import Extent
from pybroker.spark.errors import PipelineError


def test_a_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert State.read(tmp_path) is None
    state = State(
        identity={"topics": ["t"]},
        number=3,
        closed_ms=60_000,
        final_ms=0,
        next_close_ms=None,
        too_late=2,
        lost=1,
        positions={
            "here": {("t", 0): Position(Offset(10), 5, 4), ("t", 1): Position(Offset(0))},
            "producer": {("counts", 0): Position(Offset(7))},
        },
        horizons={"here": {"t": 4}},
        topic_ids={"here": {"t": "abc"}},
    )
    state.write(tmp_path)
    assert State.read(tmp_path) == state
    assert state.following("here") == {("t", 0): 10, ("t", 1): 0}
    assert state.following("nowhere") == {}


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": 1}', '{"format": 1, "positions": {"t": [[1]]}}'])
def test_a_file_that_is_not_a_state_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state/state.json").write_text(content)
    with pytest.raises(PipelineError, match=r"state\.json is not the state of an audit"):
        State.read(tmp_path)
    (tmp_path / "state/state.json").write_text(json.dumps({"format": 9}))
    with pytest.raises(PipelineError, match="has format 9, but this version reads format 1"):
        State.read(tmp_path)


def test_files_that_are_missing_or_changed_are_reported(tmp_path: Path) -> None:
    for name in ("state/words/a.parquet", "state/counts/b.parquet", "counts/c.parquet"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"12")
    State(identity={}, number=1).write(tmp_path)
    assert State.read(tmp_path) is not None
    (tmp_path / "counts/c.parquet").write_bytes(b"1")
    with pytest.raises(PipelineError, match=r"counts/c\.parquet is missing or changed: start again in another folder"):
        State.read(tmp_path)
    (tmp_path / "counts/c.parquet").write_bytes(b"12")
    (tmp_path / "state/words/a.parquet").unlink()
    with pytest.raises(PipelineError, match=r"state/words/a\.parquet is missing or changed"):
        State.read(tmp_path)
    (tmp_path / "state/state.json").unlink()
    with pytest.raises(PipelineError, match=r"state\.json is not the state of an audit: start again in another folder"):
        State.read(tmp_path)


def test_what_is_new_and_what_is_gone() -> None:
    extents = {
        ("t", 0): Extent(Offset(5), Offset(20)),
        ("t", 1): Extent(Offset(0), Offset(3)),
        ("t", 2): Extent(Offset(4), Offset(9)),
    }
    new, lost, news = next_extents(extents, {("t", 0): Offset(2), ("t", 1): Offset(3)})
    assert new == {
        ("t", 0): Extent(Offset(5), Offset(20)),
        ("t", 1): Extent(Offset(3), Offset(3)),
        ("t", 2): Extent(Offset(4), Offset(9)),
    }  # partition 2 has not been read yet
    assert (lost, news) == (3, "3 records were deleted before they were read: t-0 from 2 to 4")
    with pytest.raises(PipelineError, match="t-1 ends at offset 3, but was read to 4: it is another log"):
        next_extents(extents, {("t", 1): Offset(4)})


@given(st.lists(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 5000)), max_size=5), max_size=4), st.integers(1, 9999))
def test_a_short_pass_reads_a_share_of_each(sizes: list[list[tuple[int, int]]], most: int) -> None:
    tiers = {
        str(number): {("t", at): Extent(Offset(start), Offset(start + size)) for at, (start, size) in enumerate(found)}
        for number, found in enumerate(sizes)
    }
    taken = 0
    for tier, found in shortened(tiers, most).items():
        assert found.keys() == tiers[tier].keys()
        for place, extent in found.items():
            whole = tiers[tier][place]
            assert extent.start == whole.start
            assert extent.end <= whole.end
            assert (extent.end > extent.start) == (whole.end > whole.start)  # some offsets of each, so that each advances
            taken += extent.end - extent.start
    wanted = sum(size for found in sizes for _, size in found)
    assert taken == wanted if wanted <= most else most <= taken <= most + sum(map(len, sizes))


def test_the_watermark_is_the_least_of_what_is_behind() -> None:
    assert watermark([], 1000) == 1000
    assert watermark([(True, None), (True, 5)], 1000) == 1000  # at the end, the clock counts, even in an idle partition
    assert watermark([(True, 5), (False, 700), (False, 300)], 1000) == 300
    assert watermark([(False, 10**12)], 1000) == 1000  # a time in the future closes nothing
    assert watermark([(False, None), (True, 5)], 1000) == 0


def test_a_state_belongs_to_a_single_audit(tmp_path: Path) -> None:
    check_identity(tmp_path, {"topics": ["t"], "more": 1}, {"topics": ["t"]})
    with pytest.raises(PipelineError, match="is an audit with topics t, v, not u: give another folder"):
        check_identity(tmp_path, {"topics": ["t", "v"]}, {"topics": ["u"]})
    with pytest.raises(PipelineError, match="is an audit with counts none, not abc: give another folder"):
        check_identity(tmp_path, {"counts": None}, {"counts": "abc"})


def test_a_pass_over_everything_does_not_replace_a_state(tmp_path: Path) -> None:
    check_not_followed(tmp_path)
    (tmp_path / "state").mkdir()
    with pytest.raises(PipelineError, match="belongs to an incremental audit"):
        check_not_followed(tmp_path)


def test_what_was_moved_away_when_the_kill_came_is_put_back(tmp_path: Path) -> None:
    away = tmp_path / ".audit.1.old"
    away.mkdir()
    write_summary(away, {"number": 1})

    def look() -> None:
        with replacing(tmp_path / "audit"):
            assert (tmp_path / "audit/summary.json").exists()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        look()
    assert [entry.name for entry in tmp_path.iterdir()] == ["audit"]
    (tmp_path / "audit").rename(away)
    mended(tmp_path / "audit")
    assert [entry.name for entry in tmp_path.iterdir()] == ["audit"]
    mended(tmp_path / "no" / "audit")


def test_an_archive_that_changes_meanwhile_is_read_again(tmp_path: Path) -> None:
    options = AuditOptions(path=tmp_path, tiers=(Tier("lake", f"archive:{tmp_path}"),), topics=("t",))
    errors: list[Exception] = [PipelineError("lake/a is missing, though the manifest names it"), OSError("No such file: lake/b")]

    def work() -> int:
        if errors:
            raise errors.pop()
        return 3

    assert tried(options, work) == 3
    errors += [PipelineError("lake/c is missing, though the manifest names it")] * 3
    with pytest.raises(PipelineError, match="lake/c is missing, though the manifest names it"):
        tried(options, work)
    errors.append(PipelineError("something else"))
    with pytest.raises(PipelineError, match="something else"):
        tried(options, work)


def test_options_that_contradict_each_other_are_refused_at_once(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        command, [str(tmp_path), "--topic", "t", "--tier", "here=localhost:1", "--every", "1", "--to-time", "2026-11-21"]
    )
    assert result.exit_code == 2
    assert "--incremental and --every take neither --from-time nor --to-time" in result.output
    with pytest.raises(PipelineError, match="takes neither from_ms nor to_ms"):
        AuditOptions(path=tmp_path, tiers=(Tier("a", "b:1"),), topics=("t",), from_ms=0, incremental=Incremental())
    with pytest.raises(PipelineError, match="pass_records must be at least 1"):
        Incremental(pass_records=0)
