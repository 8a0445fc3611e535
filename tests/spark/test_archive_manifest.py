from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pybroker.model import Offset
from pybroker.spark.archive import manifest
from pybroker.spark.archive.files import NAMES, ArchivedFile, joined
from pybroker.spark.archive.manifest import Archive, Identity
from pybroker.spark.errors import PipelineError
from pybroker.spark.isolation import Isolation


def staged(archive: Archive, *ranges: tuple[int, int]) -> tuple[Path, list[ArchivedFile]]:
    """Write files of one partition with these offsets, as a batch leaves them."""
    folder, files = archive.new_staging(), []
    for first, last in ranges:
        path = Path("topic=orders/date=2026-11-21") / f"part-{first}.parquet"
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(f"{first}-{last}")
        checksum = f"{first * 1000 + last:016x}"
        files.append(
            ArchivedFile(str(path), "orders", "2026-11-21", 0, Offset(first), Offset(last), last - first + 1, checksum, 10, 5, 6)
        )
    return folder, files


def visible(archive: Archive) -> list[str]:
    return sorted(path.read_text() for path in archive.root.glob("topic=*/date=*/*.parquet"))


def named(archive: Archive) -> list[str]:
    return sorted(f"{file.first}-{file.last}" for file in archive.contents.files.values())


def reopened(archive: Archive) -> Archive:
    archive.close()
    return Archive.write(archive.root)


def test_columns() -> None:
    assert NAMES == ("partition", "offset", "timestamp", "timestampType", "key", "value", "headers", "codec", "topic", "date")


def test_what_is_committed_is_there_after_opening_again(tmp_path: Path) -> None:
    archive = Archive.write(tmp_path / "archive")
    archive.commit(*staged(archive, (0, 4), (5, 9)), batch=0)
    archive.commit(*staged(archive, (10, 19)), batch=1)
    for again in (reopened(archive), Archive.read(archive.root)):
        assert visible(again) == named(again) == ["0-4", "10-19", "5-9"]
        assert (again.contents.batch, again.contents.commit) == (1, 1)
        again.close()


def test_the_manifest_has_the_sum_of_each_partition(tmp_path: Path) -> None:
    archive = Archive.write(tmp_path / "archive")
    archive.commit(*staged(archive, (0, 4), (7, 9)), batch=0)
    archive.snapshot()
    content = json.loads((archive.hidden / "manifest.json").read_text())
    checksum = joined([f"{4:016x}", f"{7009:016x}"])
    assert content["partitions"] == {"orders": {"0": {"first": 0, "last": 9, "count": 8, "checksum": checksum}}}
    assert not list((archive.hidden / "commits").iterdir())
    assert named(reopened(archive)) == ["0-4", "7-9"]


def test_a_new_manifest_is_written_after_some_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "_SNAPSHOT_EVERY", 3)
    archive = Archive.write(tmp_path / "archive")
    for number in range(7):
        archive.commit(*staged(archive, (number, number)), batch=number)
    assert [path.stem for path in (archive.hidden / "commits").iterdir()] == [f"{6:012}"]
    assert (len(named(reopened(archive))), archive.contents.batch) == (7, 6)


class Killed(BaseException):
    """The process was killed."""


@pytest.mark.parametrize("step", range(14))
def test_a_kill_at_any_step_leaves_all_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Each change on the disk is a step. The process dies before the given step, starts again and repeats its batch."""
    archive = Archive.write(tmp_path / "archive")
    archive.commit(*staged(archive, (0, 4), (5, 9)), batch=0)
    folder, files = staged(archive, (0, 9))
    replaced = list(archive.contents.files)
    count, changes = 0, ("rename", "unlink", "replace", "rmdir")

    def counted(name: str) -> None:
        original = getattr(Path, name)

        def change(self: Path, *arguments: object, **named: object) -> object:
            nonlocal count
            count += 1
            if count > step:
                raise Killed
            return original(self, *arguments, **named)

        monkeypatch.setattr(Path, name, change)

    for name in changes:
        counted(name)
    try:
        archive.commit(folder, files, removed=replaced, batch=1)
        archive.snapshot()
    except Killed:
        pass
    else:
        assert count <= step
    monkeypatch.undo()
    again = reopened(archive)
    assert visible(again) == named(again)
    assert named(again) == (["0-4", "5-9"] if again.contents.batch == 0 else ["0-9"])
    assert again.contents.batch in {0, 1}
    if step >= 1:  # the commit exists once its file exists
        assert again.contents.batch == 1
    assert not (again.hidden / "staging").exists()


def test_what_no_commit_names_is_deleted(tmp_path: Path) -> None:
    archive = Archive.write(tmp_path / "archive")
    archive.commit(*staged(archive, (0, 4)), batch=0)
    stray = next(archive.root.glob("topic=*/date=*")) / "stray.parquet"
    stray.touch()
    staged(archive, (5, 9))
    assert visible(reopened(archive)) == ["0-4"]
    assert not stray.exists()


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    archive = Archive.write(tmp_path / "archive")
    with pytest.raises(PipelineError, match="another job is writing to"):
        Archive.write(archive.root)
    archive.close()
    Archive.write(archive.root).close()


def test_the_identity_is_kept(tmp_path: Path) -> None:
    archive = Archive.write(tmp_path / "archive")
    assert archive.identity() is None
    identity = Identity("cluster", ("orders",), None, {"orders": "id"})
    archive.identify(identity)
    archive = reopened(archive)
    assert archive.identity() == identity
    other = replace(identity, isolation=Isolation.READ_UNCOMMITTED)
    archive.identify(other)
    assert reopened(archive).identity() == other


def test_the_identity_of_an_archive_without_an_isolation_level_is_of_committed_records(tmp_path: Path) -> None:
    archive = Archive.write(tmp_path / "archive")
    identity = Identity("cluster", ("orders",), None, {"orders": "id"})
    archive.identify(identity)
    path = archive.hidden / "identity.json"
    stored = json.loads(path.read_text())
    assert stored.pop("isolation_level") == "read_committed"
    path.write_text(json.dumps(stored))
    assert reopened(archive).identity() == identity


def test_a_folder_that_is_not_an_archive_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="no such directory"):
        Archive.read(tmp_path / "nowhere")
    (tmp_path / "table.parquet").touch()
    with pytest.raises(PipelineError, match="is not an archive: its manifest is missing"):
        Archive.read(tmp_path)
    with pytest.raises(PipelineError, match="is not empty and is not an archive"):
        Archive.write(tmp_path)
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(PipelineError, match="Not a directory"):
        Archive.write(file)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"format": 2}', "has format 2"),
        ("{", "cannot be read"),
        ("[]", "not a JSON object"),
        ('{"format": 1}', "not a manifest"),
    ],
)
def test_a_manifest_of_another_kind_is_refused(tmp_path: Path, text: str, message: str) -> None:
    Archive.write(tmp_path / "archive").close()
    (tmp_path / "archive/_pybroker/manifest.json").write_text(text)
    with pytest.raises(PipelineError, match=message):
        Archive.write(tmp_path / "archive")


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    archive = Archive.write(tmp_path / "archive")
    archive.commit(*staged(archive, (0, 4)), batch=0)
    next(archive.root.glob("topic=*/date=*/*")).unlink()
    with pytest.raises(PipelineError, match="is missing, though the manifest names it"):
        Archive.read(archive.root)
