"""The write-ahead log: what was acknowledged comes back, what was torn is cut off."""

from __future__ import annotations

import errno
import os
import threading
import time

import pytest

pytest.importorskip("msgspec", reason="needs the extra serve: pip install onkel[serve]")

from onkel.app.service import log as logs
from onkel.app.service.committer import Committer, Waiting
from onkel.app.service.log import Damaged, Log, Stopped

GROUPS = [[b"one"], [b"two", b"three" * 50], [b""], [b"five", b"six"]]
RECORDS = [record for group in GROUPS for record in group]


def written(folder, groups=GROUPS):
    """A log with these groups; returns it and where each group ended."""
    log = Log(folder)
    assert list(log.recover(1)) == []
    ends = [0]
    for group in groups:
        log.append(group)
        ends.append(log.size)
    log.close()
    return ends


def read(folder, start=1):
    log = Log(folder)
    found = [record for _, record in log.recover(start)]
    log.close()
    return found, log


def test_records_come_back_in_order_with_their_positions(tmp_path):
    written(tmp_path)
    log = Log(tmp_path)
    assert list(log.recover(1)) == [*enumerate(RECORDS, 1)]
    assert log.next == len(RECORDS) + 1 and log.cut == 0


def test_a_log_cut_at_any_byte_keeps_all_groups_before_it(tmp_path):
    ends = written(tmp_path)
    (path,) = Log(tmp_path).segments()
    whole = path.read_bytes()
    for length in range(len(whole) + 1):
        path.write_bytes(whole[:length])
        kept = max(i for i, end in enumerate(ends) if end <= length)
        wanted = [record for group in GROUPS[:kept] for record in group]
        found, log = read(tmp_path)
        assert found == wanted and log.cut == length - ends[kept]
        assert path.stat().st_size == ends[kept]


def test_a_torn_group_is_overwritten_by_the_next(tmp_path):
    written(tmp_path)
    (path,) = Log(tmp_path).segments()
    path.write_bytes(path.read_bytes()[:-1])
    log = Log(tmp_path)
    assert len(list(log.recover(1))) == 4
    assert log.append([b"new"]) == 5
    log.close()
    assert read(tmp_path)[0] == [*RECORDS[:4], b"new"]


def test_every_flipped_bit_is_noticed(tmp_path, rng):
    """In the last group it is a torn write; before that, acknowledged records are gone."""
    ends = written(tmp_path)
    (path,) = Log(tmp_path).segments()
    whole = path.read_bytes()
    for at in rng.choice(len(whole), 150, replace=False).tolist():
        data = bytearray(whole)
        data[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(data))
        if at < ends[-2]:
            with pytest.raises(Damaged, match="damaged at byte"):
                read(tmp_path)
            assert path.read_bytes() == bytes(data), "nothing is cut where it may be wanted"
        else:
            assert read(tmp_path)[0] == RECORDS[:4]


def test_segments_go_on_where_the_last_ended_and_old_ones_go(tmp_path):
    log = Log(tmp_path)
    list(log.recover(1))
    log.append([b"a", b"b"])
    assert log.rotate() == 3
    assert log.rotate() == 3, "an empty file is not left behind"
    log.append([b"c"])
    assert len(log.segments()) == 2
    log.drop(before=3)
    assert [p.name for p in log.segments()] == ["00000000000000000003.log"]
    log.close()
    found = Log(tmp_path)
    assert list(found.recover(3)) == [(3, b"c")] and found.next == 4


def test_a_missing_segment_is_noticed(tmp_path):
    log = Log(tmp_path)
    list(log.recover(1))
    for record in (b"a", b"b", b"c"):
        log.append([record])
        log.rotate()
    log.close()
    log.segments()[1].unlink()
    with pytest.raises(Damaged, match="records 2 to 2 are missing"):
        read(tmp_path)


def test_a_full_disk_leaves_the_log_as_it_was(tmp_path, monkeypatch):
    log = Log(tmp_path)
    list(log.recover(1))
    log.append([b"before"])
    own = os.write

    def full(file, data):
        own(file, bytes(data)[:7])  # a part of it lands
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(logs.os, "write", full)
        with pytest.raises(OSError, match="No space"):
            log.append([b"lost"])
    assert log.append([b"after"]) == 2
    log.close()
    assert read(tmp_path)[0] == [b"before", b"after"]


def test_after_a_failed_fsync_nothing_is_promised_any_more(tmp_path, monkeypatch):
    log = Log(tmp_path)
    list(log.recover(1))
    with monkeypatch.context() as patch:
        patch.setattr(logs.os, "fdatasync", lambda file: (_ for _ in ()).throw(OSError(5, "io")))
        with pytest.raises(Stopped):
            log.append([b"x"])
    with pytest.raises(Stopped):
        log.append([b"y"])


def test_those_who_wait_share_one_fsync(tmp_path, monkeypatch):
    log = Log(tmp_path)
    list(log.recover(1))
    own, syncs, gate = os.fdatasync, [], threading.Event()

    def slow(file):
        syncs.append(file)
        gate.wait(10)
        own(file)

    monkeypatch.setattr(logs.os, "fdatasync", slow)
    committer = Committer(log)
    committer.start()
    places: list[int] = []
    for i in range(50):
        committer.submit(Waiting(b"%d" % i, places.append, pytest.fail))
        if not i:
            while not syncs:
                time.sleep(0.001)
    assert not places, "nobody is told before the disk has it"
    gate.set()
    committer.close()
    assert places == [*range(1, 51)] and len(syncs) == 2
    log.close()
    assert read(tmp_path)[0] == [b"%d" % i for i in range(50)]
