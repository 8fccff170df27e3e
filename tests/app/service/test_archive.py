"""What no restart needs any more is kept, so long and so much of it as was asked for."""

from __future__ import annotations

import errno
import io
import os
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("msgspec", reason="needs the extra serve: pip install onkel[serve]")

import msgspec

from onkel.app.service import archive as archives
from onkel.app.service.archive import Archive, Keep
from onkel.app.service.bodies import Entry
from onkel.app.service.engine import Engine
from onkel.app.service.log import Damaged, Log, frame, owned
from onkel.app.service.specs import build

LONG = Keep.of("30d")


@pytest.mark.parametrize("text", ["", "30", "30x", "2GB,3GB", "1d,2d", "-1d", "0d", "2", "30d,"])
def test_what_cannot_be_asked_for(text) -> None:
    with pytest.raises(ValueError, match=r"--archive is a time span, a size, or both"):
        Keep.of(text)


def test_what_can_be_asked_for() -> None:
    both = Keep.of("2 GiB, 12h")
    assert (both.seconds, both.bytes) == (43200.0, 2**31)
    assert Keep.of("500MB").seconds == float("inf")


def test_the_command_says_what_it_takes(tmp_path) -> None:
    words = ["serve", "--state", str(tmp_path / "s"), "--port", "0", "--archive", "soon"]
    done = subprocess.run([sys.executable, "-m", "onkel.app", *words], capture_output=True)
    assert done.returncode == 2 and b"--archive is a time span, a size" in done.stderr


# -- records of one owner ----------------------------------------------------------------------


def test_records_of_one_owner_are_those_that_were_written(rng) -> None:
    groups, at = [], 1
    for _ in range(30):
        count = int(rng.integers(1, 6))
        groups.append((at, [(int(rng.integers(1, 4)), rng.bytes(9)) for _ in range(count)]))
        at += count
    data = b"".join(frame(first, records) for first, records in groups)
    every = [(f + i, o, b) for f, records in groups for i, (o, b) in enumerate(records)]
    for owner in (1, 2, 3, 4, None):
        for end in (1, at // 2, at):
            wanted = [r for r in every if r[0] < end and owner in (r[1], None)]
            found = [*owned(io.BytesIO(data), owner, end)]
            assert [(r.position, r.owner, r.body) for r in found] == wanted
            assert all(r.whole for r in found)


def test_damage_is_not_read_over() -> None:
    data = frame(1, [(1, b"one"), (2, b"two")]) + frame(3, [(1, b"three")])
    with pytest.raises(Damaged, match="its end is missing"):
        [*owned(io.BytesIO(data), 1, 5)]
    for at in (0, 10, 40):  # magic, head, table
        spoiled = bytearray(data)
        spoiled[at] ^= 1
        with pytest.raises(Damaged, match="at byte 0"):
            [*owned(io.BytesIO(bytes(spoiled)), 1, 4)]
    spoiled = bytearray(data)
    spoiled[-1] ^= 1
    assert [r.whole for r in owned(io.BytesIO(bytes(spoiled)), 1, 4)] == [True, False]


# -- a log in parts ----------------------------------------------------------------------------


def parts(folder: Path, keep: Keep | None = LONG, count: int = 5) -> tuple[Log, Archive]:
    """A log in several files, three records each, of owners 1, 2, 1."""
    (folder / "log").mkdir(parents=True)
    (folder / "archive").mkdir()
    log = Log(folder / "log")
    assert [*log.recover(1)] == []
    for i in range(count):
        for owner in (1, 2, 1):
            log.append([(owner, b"%d-%d" % (i, owner))])
        log.rotate()
    return log, Archive(folder / "archive", log, keep)


def kept(archive: Archive, owner: int = 1, upto: int = 10**9) -> list[int]:
    upto = min(upto, archive.log.next - 1)
    return [r.position for r in archive.records(archive.pieces(), owner, upto)]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_nothing_is_kept_unless_asked(tmp_path) -> None:
    log, archive = parts(tmp_path, keep=None)
    archive.take(10)
    assert names(archive.folder) == [] and int(log.segments()[0].stem) == 10


@pytest.mark.parametrize("needed", [1, 2, 4, 7, 8, 16, 99])
def test_every_record_is_in_one_place(tmp_path, needed) -> None:
    log, archive = parts(tmp_path)
    archive.take(needed)
    assert kept(archive) == [p for p in range(1, 16) if p % 3 != 2]
    assert kept(archive, 2) == [2, 5, 8, 11, 14] and kept(archive, 2, upto=8) == [2, 5, 8]
    moved = [f"{f:020d}-{f + 3:020d}.log" for f in range(1, 16, 3) if f + 3 <= needed]
    assert names(archive.folder) == moved
    again = Log(log.folder)
    assert [r.position for r in again.recover(needed)] == [*range(1 + 3 * len(moved), 16)]
    assert archive.bytes == sum(p.stat().st_size for p in archive.folder.iterdir())


def test_a_kill_at_any_point_of_moving_loses_and_doubles_nothing(tmp_path, monkeypatch) -> None:
    """The folder is copied before each step that changes it, and is taken up again there."""
    _, archive = parts(tmp_path / "s")
    copies: list[Path] = []

    def watched(module, name):
        plain = getattr(module, name)

        def call(*args, **kwargs):
            copies.append(shutil.copytree(tmp_path / "s", tmp_path / f"copy{len(copies)}"))
            return plain(*args, **kwargs)

        monkeypatch.setattr(module, name, call)

    watched(Path, "rename")
    watched(Path, "unlink")
    watched(archives, "sync_folder")
    archive.keep = Keep.of("330B")  # two files
    archive.take(13)
    monkeypatch.undo()
    assert len(copies) >= 6 and kept(archive, 2) == [8, 11, 14]
    for copy in copies:
        again = Log(copy / "log")
        assert {13, 14, 15} <= {r.position for r in again.recover(13)}, "a restart needs these"
        other = Archive(copy / "archive", again, LONG)
        before = kept(other)
        other.take(13)
        found = kept(other)
        assert before == found == [p for p in range(found[0], 16) if p % 3 != 2]


def test_a_file_in_both_places_is_read_once(tmp_path) -> None:
    """As a power cut may leave it where the file system promises little."""
    log, archive = parts(tmp_path)
    first = log.segments()[0]
    shutil.copy(first, archive.folder / f"{1:020d}-{4:020d}.log")
    assert kept(archive) == [p for p in range(1, 16) if p % 3 != 2]
    archive.take(4)
    assert kept(archive) == [p for p in range(1, 16) if p % 3 != 2] and not first.exists()


def test_behind_a_gap_it_begins_anew(tmp_path) -> None:
    _, archive = parts(tmp_path)
    archive.take(13)
    (archive.folder / f"{4:020d}-{7:020d}.log").unlink()
    assert kept(archive, 2) == [8, 11, 14]


# -- how long, and how much --------------------------------------------------------------------


def aged(archive: Archive, days: list[float]) -> None:
    """Let files be of so many days before now, the oldest first."""
    for path, day in zip(sorted(archive.folder.iterdir()), days, strict=True):
        os.utime(path, (time.time() - 86400 * day,) * 2)


def test_what_is_older_goes(tmp_path) -> None:
    _, archive = parts(tmp_path)
    archive.take(13)
    aged(archive, [50, 40, 20, 10])
    archive.tidy()
    assert kept(archive, 2) == [8, 11, 14]
    assert abs(archive.oldest - (time.time() - 20 * 86400)) < 60, "records here do not say it"


def test_the_oldest_goes_first_where_there_are_more_bytes(tmp_path) -> None:
    log, archive = parts(tmp_path)
    archive.take(13)
    size = archive.bytes // 4
    for room, left in ((4 * size, 4), (4 * size - 1, 3), (2 * size, 2), (size - 1, 0)):
        archive.keep = Keep("", bytes=room)
        archive.tidy()
        assert len(names(archive.folder)) == left and archive.bytes == left * size
    assert archive.oldest is None and next(Log(log.folder).recover(13)).position == 13


def test_nothing_goes_while_it_is_read(tmp_path) -> None:
    _, archive = parts(tmp_path)
    archive.take(13)
    archive.keep = Keep.of("1B")
    with archive.held():
        archive.tidy()
        assert len(names(archive.folder)) == 4
    archive.tidy()
    assert names(archive.folder) == []


def test_a_file_may_be_moved_while_it_is_read(tmp_path) -> None:
    _, archive = parts(tmp_path)
    pieces = archive.pieces()
    found = archive.records(pieces, 2, 15)
    assert next(found).position == 2
    archive.take(99)
    assert [r.position for r in found] == [5, 8, 11, 14]


@pytest.mark.parametrize("when", range(4))
def test_the_log_may_go_on_in_a_new_file_while_it_is_looked_at(tmp_path, when) -> None:
    """It was called damaged where it went on between two looks at it."""
    log, archive = parts(tmp_path)
    log.append([(2, b"newest")])
    looks = []

    def move() -> None:
        log.rotate()
        log.append([(2, b"later")])

    class Moving(Log):
        """It goes on after a look, or before it."""

        def __getattribute__(self, name):
            if name not in ("next", "segments"):
                return getattr(log, name)
            looks.append(name)
            if len(looks) == when // 2 + 1 and when % 2:
                move()
            found = getattr(log, name)() if name == "segments" else log.next
            if len(looks) == when // 2 + 1 and not when % 2:
                move()
            return found if name == "next" else lambda: found

    archive.log = Moving(tmp_path)
    pieces = archive.pieces()
    found = [r.position for r in archive.records(pieces, 2, pieces[-1].end - 1)]
    assert found[:6] == [2, 5, 8, 11, 14, 16] and found[6:] in ([], [17])


# -- when the disk refuses ---------------------------------------------------------------------


def test_what_cannot_be_moved_stays_in_the_log_and_is_bounded_there(tmp_path, monkeypatch) -> None:
    log, archive = parts(tmp_path)

    def failing(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "rename", failing)
    archive.take(13)
    assert len(log.segments()) == 6 and kept(archive, 2) == [2, 5, 8, 11, 14]
    assert "could not be moved" in archive.troubles()[0] and archive.bytes
    archive.keep = Keep("", bytes=archive.bytes // 2)
    archive.take(13)
    assert kept(archive, 2) == [8, 11, 14], "it is bounded there as well"
    monkeypatch.undo()
    archive.take(13)
    assert len(names(archive.folder)) == 2 and archive.troubles() == []


def test_a_folder_that_went_is_told_of_and_stops_nothing(tmp_path) -> None:
    log, archive = parts(tmp_path)
    archive.take(7)
    shutil.rmtree(archive.folder)
    archive.folder.write_text("no folder")
    archive.take(13)
    archive.tidy()
    assert "could not be moved" in archive.troubles()[0] and kept(archive, 2) == [8, 11, 14]
    assert [r.position for r in Log(log.folder).recover(13)] == [*range(7, 16)]


def test_what_cannot_be_removed_is_told_of(tmp_path, monkeypatch) -> None:
    _, archive = parts(tmp_path)
    archive.take(13)

    def failing(*args, **kwargs):
        raise OSError(errno.EROFS, "Read-only file system")

    archive.keep = Keep.of("1B")
    monkeypatch.setattr(Path, "unlink", failing)
    archive.tidy()
    assert "cannot be removed" in archive.troubles()[0] and len(names(archive.folder)) == 4
    monkeypatch.undo()
    archive.tidy()
    assert archive.troubles() == [] and names(archive.folder) == []


def make(engine, name="d", **parameters):
    entry = Entry("create", 0, name=name, kind="Detector")
    entry.parameters = msgspec.json.encode(parameters)
    engine.change(entry, build("Detector", parameters)).result()


def learn(engine, X, name="d"):
    slot = engine.slot(name)
    entry = Entry("learn", slot.spec.id, width=X.shape[1], numbers=X.tobytes())
    return engine.change(entry).result()


def test_learning_goes_before_what_is_kept_of_it(tmp_path, rng, monkeypatch) -> None:
    """A disk that has room again as soon as something went: nothing is refused."""
    engine = Engine(tmp_path / "s", archive=LONG)
    make(engine)
    for _ in range(4):
        learn(engine, rng.normal(size=(50, 2)))
        engine.snapshot()
    archive, plain = engine.state.archive, os.write
    full = [len(names(archive.folder)) - 2]

    def write(file, data):
        if len(names(archive.folder)) > full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        return plain(file, data)

    with monkeypatch.context() as patch:
        patch.setattr("onkel.app.service.log.os.write", write)
        learn(engine, rng.normal(size=(50, 2)))
    assert len(names(archive.folder)) == full[0] == 2
    assert "disk is full" in engine.troubles()[0]
    counts = iter([1, 0, 1, 0])

    def saving(*args):
        if next(counts, 0):
            raise OSError(errno.ENOSPC, "No space left on device")
        return saved(*args)

    saved = engine.state.write_model
    monkeypatch.setattr(engine.state, "write_model", saving)
    engine.snapshot()
    assert len(names(archive.folder)) == 2 and engine.keeper.failures == 0, "one went, one came"
    t = engine.slot("d").estimator.t_
    engine.close()
    again = Engine(tmp_path / "s", archive=LONG)
    assert again.slot("d").estimator.t_ == t == 250
    again.close()


def test_a_disk_may_stay_full_for_long(tmp_path, monkeypatch) -> None:
    log, plain, tries = Log(tmp_path), os.write, []
    assert [*log.recover(1)] == []
    log.make_room = lambda error: error.errno == errno.ENOSPC

    def write(file, data):
        tries.append(len(data))
        if len(tries) < 3000:
            plain(file, bytes(data)[:5])  # a part of it is there
            raise OSError(errno.ENOSPC, "No space left on device")
        return plain(file, data)

    with monkeypatch.context() as patch:
        patch.setattr("onkel.app.service.log.os.write", write)
        assert log.append([(1, b"one")]) == 1
    assert [r.body for r in Log(tmp_path).recover(1)] == [b"one"]


def test_without_an_archive_a_full_disk_refuses_as_ever(tmp_path, rng, monkeypatch) -> None:
    engine = Engine(tmp_path / "s")
    make(engine)

    def write(file, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("onkel.app.service.log.os.write", write)
        with pytest.raises(Exception, match="Make room"):
            learn(engine, rng.normal(size=(50, 2)))
    engine.close()


# -- whose it is -------------------------------------------------------------------------------


@pytest.mark.skipif(os.name == "nt", reason="modes are POSIX's")
def test_it_is_private_and_links_are_not_followed(tmp_path, rng) -> None:
    old = os.umask(0)
    try:
        engine = Engine(tmp_path / "s", archive=LONG)
        make(engine)
        learn(engine, rng.normal(size=(5, 2)))
        engine.snapshot()
        engine.close()
    finally:
        os.umask(old)
    folder = tmp_path / "s" / "archive"
    files = [*folder.iterdir()]
    assert files and stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in files)
    victim = tmp_path / "victim"
    shutil.move(files[0], victim)
    files[0].symlink_to(victim)
    again = Engine(tmp_path / "s", archive=LONG)
    with pytest.raises(Damaged, match="symbolic link"):
        kept(again.state.archive)
    again.close()
    shutil.rmtree(folder)
    folder.symlink_to(tmp_path)
    with pytest.raises(OSError, match="symbolic link"):
        Engine(tmp_path / "s", archive=LONG)


def test_files_that_are_not_its_own_stay(tmp_path) -> None:
    _, archive = parts(tmp_path)
    (archive.folder / "notes.txt").write_text("mine")
    archive.take(13)
    archive.keep = Keep.of("1B")
    archive.tidy()
    assert names(archive.folder) == ["notes.txt"]


def test_without_the_option_it_is_left_as_it_is(tmp_path, rng, caplog) -> None:
    engine = Engine(tmp_path / "s", archive=LONG)
    make(engine)
    for _ in range(3):
        learn(engine, rng.normal(size=(5, 2)))
        engine.snapshot()
    engine.close()
    before = names(tmp_path / "s" / "archive")
    engine = Engine(tmp_path / "s")
    assert "none come, and none go" in caplog.text
    learn(engine, rng.normal(size=(5, 2)))
    engine.close()
    assert names(tmp_path / "s" / "archive") == before
    engine = Engine(tmp_path / "s", archive=LONG)
    learn(engine, rng.normal(size=(5, 2)))
    position = engine.slot("d").position
    assert kept(engine.state.archive) == [position], "what is missing in between is not passed over"
    engine.close()


def test_an_engine_keeps_every_record_whatever_snapshots_do(tmp_path, rng) -> None:
    engine = Engine(tmp_path / "s", archive=LONG)
    make(engine)
    wanted = [1] + [
        (learn(engine, rng.normal(size=(3, 2))).position, i % 4 == 3 and engine.snapshot())[0]
        for i in range(22)
    ]
    again = Engine(shutil.copytree(tmp_path / "s", tmp_path / "killed"), archive=LONG)
    assert kept(engine.state.archive) == kept(again.state.archive) == wanted
    again.snapshot()
    assert kept(again.state.archive) == wanted
    assert again.state.archive.oldest == pytest.approx(time.time(), abs=60)
    assert np.isclose(again.state.archive.oldest, engine.state.archive.oldest)
    for one in (engine, again):
        one.close()
