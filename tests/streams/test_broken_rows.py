"""A broken row is told with its line, and costs no more than itself."""

from __future__ import annotations

import time

import numpy as np
import pytest
from helpers.reading import FAST, broken, read

from onkel.streams.sources import Roles, SourceError


@pytest.mark.parametrize("fast", FAST)
def test_half_a_character_is_a_broken_row(tmp_path, fast) -> None:
    lines = [rb'{"a": 1, "k": "\ud83d\ude00"}', rb'{"a": 2, "k": "\ud800"}']
    lines += [rb'{"a": 3, "k": "x", "\udc00": 1}', rb'{"a": 4, "k": "\\ud800"}']
    (tmp_path / "rows.jsonl").write_bytes(b"\n".join(lines))
    _, blocks = read(tmp_path / "rows.jsonl", fast=fast, roles=Roles(key="k"))
    assert [line for line, _ in broken(blocks)] == [2, 3]
    assert [key for b in blocks for key in b.keys] == ["\U0001f600", "\\ud800"]
    for b in blocks:
        "".join([*b.keys, *(bad.reason + bad.text for bad in b.bad)]).encode()


def test_labels_and_targets_beyond_what_models_take(tmp_path) -> None:
    (tmp_path / "rows.csv").write_text("a,y\n1,2\n2,1e30\n3,9007199254740992\n4,-1e16\n")
    _, blocks = read(tmp_path / "rows.csv", roles=Roles("y", labels=True))
    assert blocks[0].y.tolist() == [2, 2**53]
    assert [line for line, _ in broken(blocks)] == [3, 5]
    (tmp_path / "rows.csv").write_text("a,y\n1,2\n2,1e151\n3,-1e150\n")
    _, blocks = read(tmp_path / "rows.csv", roles=Roles("y"))
    assert blocks[0].y.tolist() == [2, -1e150]
    assert broken(blocks) == [(3, "column 'y': 1e+151 is no target up to 1e+150 in size")]


def test_a_stray_quote_costs_no_more_than_its_row(tmp_path) -> None:
    rows = [f"{i},{i},x" for i in range(40_000)]
    text = ["a,b,c", *rows[:1000], '1,"2,x', *rows[1000:]]
    (tmp_path / "rows.csv").write_text("\n".join(text))
    begun = time.process_time()
    _, blocks = read(tmp_path / "rows.csv")
    assert time.process_time() - begun < 3  # the square of the lines took ten seconds
    assert np.concatenate([b.X[:, 0] for b in blocks]).tolist() == list(range(40_000))
    assert broken(blocks) == [(1002, "a quote that is not closed")]
    with open(tmp_path / "rows.csv", "a") as file:
        file.write('\n7,8,"two\nlines"\n')
    _, blocks = read(tmp_path / "rows.csv", longest=1000)
    assert np.concatenate([b.X[:, 0] for b in blocks]).tolist() == [*range(40_000), 7]
    assert broken(blocks) == [(1002, "a quote that is not closed")]


def test_one_large_index_does_not_make_a_thousand_million_columns(tmp_path) -> None:
    path = tmp_path / "rows.libsvm"
    path.write_text(f"1 1:3 999999999:1\n0 1:2\n0 {'9' * 5000}:1\n")
    with pytest.raises(SourceError, match=r"999999999.*--features N"):
        read(path, roles=Roles("label"))
    _, blocks = read(path, roles=Roles("label"), features=2)
    assert blocks[0].X.tolist() == [[2, 0]] and [line for line, _ in broken(blocks)] == [1, 3]


@pytest.mark.parametrize("fast", FAST)
def test_bytes_that_are_no_text_make_a_broken_row_in_any_column(tmp_path, fast) -> None:
    rows = [b"%d,x" % i for i in range(100)]
    rows[50] = b"50,\xff"
    rows[60] = "60,\u00e4".encode()
    (tmp_path / "rows.csv").write_bytes(b"\n".join([b"a,note", *rows]))
    _, blocks = read(tmp_path / "rows.csv", fast=fast)
    assert broken(blocks) == [(52, "not UTF-8 at byte 3")]
    assert sum(len(b.rows) for b in blocks) == 99


ODD = ["[1]", "{}", '{"a": {"b": [1]}}', "[[]]", "1" * 400, "-" + "9" * 4000, "9" * 5000, "NaN",
       "Infinity", "-Infinity", "1e999", '"x"', '"\\u0000"', "true", "null", "1e-400", "0.1e",
       "01", '"' + "x" * 5000 + '"', "[" * 5000, '{"a":' * 5000, "-0",
       "9007199254740993"]  # fmt: skip


@pytest.mark.parametrize("fast", FAST)
@pytest.mark.parametrize("roles", [
    Roles(), Roles("y"), Roles("y", labels=True), Roles(time="y"), Roles(key="y")
])  # fmt: skip
def test_odd_values_of_json_are_broken_rows(tmp_path, fast, roles) -> None:
    rows = ['{"x": 1, "y": 1}'] * 300 + [f'{{"x": 1, "y": {odd}}}' for odd in ODD]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows) + "\n")
    _, blocks = read(tmp_path / "rows.jsonl", fast=fast, roles=roles)
    told = broken(blocks)
    assert sum(len(b.rows) for b in blocks) + len(told) == len(rows)
    wrong = {301, 302, 303, 304, 307, 308, 309, 310, 317, 318, 320, 321}
    assert wrong <= {line for line, _ in told}
    assert all(len(reason) < 200 for _, reason in told)


@pytest.mark.parametrize("fast", FAST)
def test_of_a_name_that_stands_twice_the_last_counts(tmp_path, fast) -> None:
    (tmp_path / "rows.jsonl").write_text('{"x": 1, "y": 2, "x": 3}\n{"x": 4, "x": [], "x": 5}\n')
    _, blocks = read(tmp_path / "rows.jsonl", fast=fast)
    assert blocks[0].X[:, 0].tolist() == [3, 5] and broken(blocks) == []


@pytest.mark.parametrize("text", ["9007199254740993", "+9007199254740993", "-9007199254740993"])
def test_labels_of_text_keep_all_their_digits(tmp_path, text) -> None:
    (tmp_path / "rows.csv").write_text(f"a,y\n1,9007199254740992\n2,{text}\n3,1e3\n4, 7 \n")
    _, blocks = read(tmp_path / "rows.csv", roles=Roles("y", labels=True))
    assert blocks[0].y.tolist() == [2**53, 1000, 7]
    assert [line for line, _ in broken(blocks)] == [3]


@pytest.mark.parametrize("fast", FAST)
def test_a_cell_is_no_longer_than_a_line(tmp_path, fast) -> None:
    long = "v" * 900_000
    (tmp_path / "rows.csv").write_text(f"a,y\n1,u\n2,{long}{long}\n3,{long}\n")
    _, blocks = read(tmp_path / "rows.csv", roles=Roles(key="y"), fast=fast)
    assert blocks[0].keys == ["u", long]
    assert broken(blocks) == [(3, "a line of 1800002 bytes is too long")]
