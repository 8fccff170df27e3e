"""The column of the time, however it is written: found, given, kept for a run that goes on."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers.reading import FAST, broken, read

from onkel.streams.sources import Reading, Roles, Schema, SourceError, open_source

TIME = Roles(time="when")
SAME = {
    "dots": ["09.03.2020 15:56:30", "10.03.2020 00:00:00", "13.03.2020 23:00:01"],
    "us": ["3/9/2020 3:56:30 PM", "3/10/2020 12:00:00 AM", "3/13/2020 11:00:01 PM"],
    "slashes": ["2020/03/09 15:56:30", "2020/03/10 00:00:00", "2020/03/13 23:00:01"],
    "digits": ["20200309155630", "20200310000000", "20200313230001"],
    "iso": ["2020-03-09T15:56:30", "2020-03-10T00:00:00Z", "2020-03-14T00:00:01+01:00"],
    "s": ["1583769390", "1583798400", "1584140401"],
    "ms": ["1583769390000", "1583798400000", "1584140401000"],
    "us epoch": ["1583769390000000", "1583798400000000", "1584140401000000"],
    "ns": ["1583769390000000000", "1583798400000000000", "1584140401000000000"],
}
SECONDS = [1583769390, 1583798400, 1584140401]


@pytest.mark.parametrize("fast", FAST)
@pytest.mark.parametrize("cells", SAME.values(), ids=SAME)
def test_times_of_csv_and_json(tmp_path, fast, cells) -> None:
    lines = [f"{i % 7};{cell}" for i, cell in enumerate(cells * 30)]
    (tmp_path / "rows.csv").write_text("\n".join(["a;when", *lines]))
    rows = [json.dumps({"a": i % 7, "when": cell}) for i, cell in enumerate(cells * 30)]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows))
    for name in ("rows.csv", "rows.jsonl"):
        source, blocks = read(tmp_path / name, fast=fast, roles=TIME)
        assert broken(blocks) == [] and source.warnings() == []
        assert np.concatenate([b.time for b in blocks]).tolist() == SECONDS * 30
        assert [s for b in blocks for s in b.stamps] == cells * 30


def test_a_bad_cell_is_a_broken_row(tmp_path) -> None:
    cells = [*SAME["dots"] * 10, "31.02.2020", "soon", "", "14.03.2020"]
    (tmp_path / "rows.csv").write_text("\n".join(["a,when", *(f"1,{c}" for c in cells)]))
    _, blocks = read(tmp_path / "rows.csv", roles=TIME)
    assert [line for line, _ in broken(blocks)] == [32, 33, 34]
    assert broken(blocks)[0][1] == (
        "column 'when': '31.02.2020' is no time (day first, as in '09.03.2020 15:56:30'); "
        "--time-format says how it is written"
    )
    assert blocks[-1].time[-1] == 1584144000


def test_what_day_or_month_cannot_tell_is_said(tmp_path) -> None:
    (tmp_path / "rows.csv").write_text("a,when\n1,3/9/2020\n2,3/10/2020\n")
    source, blocks = read(tmp_path / "rows.csv", roles=TIME)
    (said,) = source.warnings()
    assert "whether day or month comes first" in said and "--time-format dmy" in said
    assert blocks[0].time.tolist() == [1583712000, 1583798400]
    source, blocks = read(tmp_path / "rows.csv", roles=Roles(time="when", time_format="dmy"))
    assert source.warnings() == [] and blocks[0].time[0] == 1599091200
    source, blocks = read(tmp_path / "rows.csv", roles=Roles(time="when", time_format="%d/%m/%Y"))
    assert blocks[0].time[0] == 1599091200


def test_a_run_that_goes_on_reads_times_as_it_began(tmp_path) -> None:
    """Later rows would tell another order: the first rows have decided, and it is kept."""
    path = tmp_path / "rows.csv"
    path.write_text("a,when\n" + "1,03.09.2020\n" * 100 + "1,04.09.2020\n" * 100)
    source = open_source(str(path), Reading(roles=TIME))
    block = next(source.blocks())
    memo = json.loads(json.dumps(source.memo()))
    path.write_text(path.read_text() + "1,09.13.2020\n")
    later = open_source(str(path), Reading(roles=TIME), memo, block.position)
    assert later.schema == source.schema
    blocks = list(later.blocks())
    source.close()
    later.close()
    assert set(np.concatenate([b.time for b in blocks])) == {1599091200.0, 1599177600.0}
    assert len(broken(blocks)) == 1


def test_a_column_that_holds_no_times_is_told(tmp_path) -> None:
    (tmp_path / "rows.csv").write_text("a,when\n1,early\n2,late\n")
    source, blocks = read(tmp_path / "rows.csv", roles=TIME)
    (said,) = source.warnings()
    assert "'early' is no time that is known" in said and "--time-format" in said
    assert len(broken(blocks)) == 2 and "--time-format" in broken(blocks)[0][1]
    (tmp_path / "one.csv").write_text("a,when\n1,2026-01-01\n2,32.13.2026\n3,2026-01-03\n")
    (said,) = read(tmp_path / "one.csv", roles=TIME)[0].warnings()
    assert "'32.13.2026' is no time that is known" in said  # and the first one is
    (tmp_path / "two.csv").write_text("a,when\n1,2026-01-01\n2,28.12.2026\n3,2026-01-03\n")
    (said,) = read(tmp_path / "two.csv", roles=TIME)[0].warnings()
    assert "the first rows write times in more than one way" in said
    with pytest.raises(SourceError, match="--time-format: a format of times is one of iso, s,"):
        read(tmp_path / "rows.csv", roles=Roles(time="when", time_format="german"))


def test_times_before_anything_was_seen(tmp_path) -> None:
    schema = Schema.infer(["a", "when"], [], TIME)
    assert schema.columns[1].dates is None
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema
