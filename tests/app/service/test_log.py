"""The write-ahead log: what was acknowledged comes back, what was torn is cut off.

What was acknowledged and is damaged is neither passed over nor cut off.
"""

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


def owned(records, owner=7):
    """Records as the log takes them."""
    return [(owner, record) for record in records]


def written(folder, groups=GROUPS):
    """A log with these groups; returns it and where each group ended."""
    log = Log(folder)
    assert list(log.recover(1)) == []
    ends = [0]
    for group in groups:
        log.append(owned(group))
        ends.append(log.size)
    log.close()
    return ends


def read(folder, start=1):
    log = Log(folder)
    found = [record.body for record in log.recover(start)]
    log.close()
    return found, log


def test_records_come_back_in_order_with_their_positions(tmp_path):
    written(tmp_path)
    log = Log(tmp_path)
    found = list(log.recover(1))
    assert [(r.position, r.body) for r in found] == [*enumerate(RECORDS, 1)]
    assert all(r.whole and r.owner == 7 for r in found)
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
    assert log.append(owned([b"new"])) == 5
    log.close()
    assert read(tmp_path)[0] == [*RECORDS[:4], b"new"]


def flipped(data, at, bit=0):
    found = bytearray(data)
    found[at] ^= 1 << bit
    return bytes(found)


def test_every_flipped_bit_is_noticed(tmp_path, rng):
    """Also in the last group, which is whole, and so was acknowledged: nothing is cut."""
    written(tmp_path)
    (path,) = Log(tmp_path).segments()
    whole, named = path.read_bytes(), 0
    for at in rng.choice(len(whole), 150, replace=False).tolist():
        path.write_bytes(data := flipped(whole, at, int(rng.integers(8))))
        log = Log(tmp_path)
        try:
            found = list(log.recover(1))
        except Damaged as error:
            assert "damaged at byte" in str(error) and path.name in str(error)
        else:
            named += 1
            assert [r.whole for r in found].count(False) == 1 and log.cut == 0
            assert [r.body for r in found if r.whole] == [
                record for r, record in zip(found, RECORDS, strict=True) if r.whole
            ]
            log.close()
        assert path.read_bytes() == data, "nothing is cut where it may be wanted"
    assert named > 50, "most bytes are those of records, whose owners are known"


def test_a_damaged_record_is_passed_on_with_its_owner(tmp_path):
    log = Log(tmp_path)
    list(log.recover(1))
    log.append([(1, b"first" * 9), (2, b"second" * 9)])
    log.close()
    (path,) = log.segments()
    data = path.read_bytes()
    path.write_bytes(flipped(data, data.index(b"second")))
    found = list(Log(tmp_path).recover(1))
    assert [(r.owner, r.whole) for r in found] == [(1, True), (2, False)]
    again = logs.records_of(b"".join(map(logs.frame_again, found)))
    assert again == found, "it can be kept as it is"


def test_a_length_that_was_changed_is_no_torn_write(tmp_path):
    """A head that says more bytes than there are is not believed."""
    written(tmp_path)
    (path,) = Log(tmp_path).segments()
    data = path.read_bytes()
    at = data.rindex(logs.MAGIC)
    path.write_bytes(flipped(data, at + 11, 3))  # far more bytes behind it
    with pytest.raises(Damaged, match=f"damaged at byte {at}"):
        read(tmp_path)


def test_a_torn_frame_that_holds_a_whole_one_is_cut(tmp_path):
    """A record may hold anything, also the bytes of a frame."""
    log = Log(tmp_path)
    list(log.recover(1))
    log.append(owned([b"kept"]))
    log.append(owned([logs.frame(2, owned([b"inside"])) + b"more" * 9]))
    log.close()
    (path,) = log.segments()
    path.write_bytes(path.read_bytes()[:-5])
    assert read(tmp_path)[0] == [b"kept"]


@pytest.mark.parametrize("zeros", [5, 40, 5000])
def test_zeros_at_the_end_are_a_torn_write(tmp_path, caplog, zeros):
    """Room that a file system had given, and not written to, when the power went."""
    log = Log(tmp_path)
    list(log.recover(1))
    log.append(owned([b"kept"]))
    log.close()
    (path,) = log.segments()
    path.write_bytes(path.read_bytes() + bytes(zeros))
    assert read(tmp_path)[0] == [b"kept"]
    assert f"{zeros} bytes of a write that did not end are cut off" in caplog.text


def test_recovery_takes_no_longer_for_bodies_full_of_heads(tmp_path):
    """A frame of nothing but beginnings of frames, torn: its bytes are looked at once."""
    head = logs.frame(1, owned([b"x" * 2**21]))[: len(logs.frame(1, owned([])))]
    plain, hostile = (_seconds(tmp_path / n, body * 2**15) for n, body in
                      (("plain", b"y" * len(head)), ("hostile", head)))  # fmt: skip
    assert hostile < 10 * plain + 0.2


def _seconds(folder, body):
    folder.mkdir()
    log = Log(folder)
    list(log.recover(1))
    log.append(owned([b"kept"]))
    log.append(owned([body]))
    log.close()
    (path,) = log.segments()
    path.write_bytes(path.read_bytes()[:-1])
    begun = time.process_time()
    assert read(folder)[0] == [b"kept"]
    return time.process_time() - begun


def test_what_else_lies_in_the_folder_is_left_alone(tmp_path):
    ends = written(tmp_path)
    (tmp_path / "notes.log").write_text("mine")
    (tmp_path / f"{9:020d}.log").mkdir()
    (tmp_path / "stray").mkdir()
    found, log = read(tmp_path)
    assert (
        found == RECORDS
        and len(log.segments()) == 1
        and log.segments()[0].stat().st_size == ends[-1]
    )
    log.drop(10**6)
    assert (tmp_path / "notes.log").read_text() == "mine"


def test_records_between_two_positions(tmp_path):
    log = Log(tmp_path)
    list(log.recover(1))
    for first in range(5):
        log.append(owned([b"%d" % (2 * first), b"%d" % (2 * first + 1)]))
        log.rotate()
    for after, before in ((0, 11), (3, 7), (4, 5), (9, 11), (5, 6), (7, 8)):
        found = [r.position for r in log.records(after, before)]
        assert found == [*range(after + 1, before)]
    with pytest.raises(Damaged, match="records 11 to 11 are missing"):
        list(log.records(0, 12))
    log.close()


def test_segments_go_on_where_the_last_ended_and_old_ones_go(tmp_path):
    log = Log(tmp_path)
    list(log.recover(1))
    log.append(owned([b"a", b"b"]))
    assert log.rotate() == 3
    assert log.rotate() == 3, "an empty file is not left behind"
    log.append(owned([b"c"]))
    log.drop(before=2)
    assert len(log.segments()) == 2, "the second record is still asked for"
    log.drop(before=3)
    assert [p.name for p in log.segments()] == ["00000000000000000003.log"]
    log.close()
    found = Log(tmp_path)
    assert [(r.position, r.body) for r in found.recover(3)] == [(3, b"c")]
    assert found.next == 4


def test_a_missing_segment_is_noticed(tmp_path):
    log = Log(tmp_path)
    list(log.recover(1))
    for record in (b"a", b"b", b"c"):
        log.append(owned([record]))
        log.rotate()
    log.close()
    log.segments()[1].unlink()
    with pytest.raises(Damaged, match="records 2 to 2 are missing"):
        read(tmp_path)


def test_a_full_disk_leaves_the_log_as_it_was(tmp_path, monkeypatch):
    log = Log(tmp_path)
    list(log.recover(1))
    log.append(owned([b"before"]))
    own = os.write

    def full(file, data):
        own(file, bytes(data)[:7])  # a part of it lands
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(logs.os, "write", full)
        with pytest.raises(OSError, match="No space"):
            log.append(owned([b"lost"]))
    assert log.append(owned([b"after"])) == 2
    log.close()
    assert read(tmp_path)[0] == [b"before", b"after"]


def test_after_a_failed_fsync_nothing_is_promised_any_more(tmp_path, monkeypatch):
    log = Log(tmp_path)
    list(log.recover(1))
    with monkeypatch.context() as patch:
        patch.setattr(logs.os, "fdatasync", lambda file: (_ for _ in ()).throw(OSError(5, "io")))
        with pytest.raises(Stopped):
            log.append(owned([b"x"]))
    with pytest.raises(Stopped):
        log.append(owned([b"y"]))


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
        committer.submit(Waiting(7, b"%d" % i, places.append, pytest.fail))
        if not i:
            while not syncs:
                time.sleep(0.001)
    assert not places, "nobody is told before the disk has it"
    gate.set()
    committer.close()
    assert places == [*range(1, 51)] and len(syncs) == 2
    log.close()
    assert read(tmp_path)[0] == [b"%d" % i for i in range(50)]
