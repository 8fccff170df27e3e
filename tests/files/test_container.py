"""The file itself: found by others, written whole, read only if every byte is as written."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.corrupted import sealed
from helpers.fingerprint import fingerprint
from helpers.sizes import size

import onkel
from onkel import KernelClassifier, files
from onkel.files import container
from onkel.files import model as models


@pytest.fixture
def model(rng):
    X = rng.normal(size=(90, 2))
    return KernelClassifier().partial_fit(X, np.where(X[:, 0] > 0, "up", "down"))


def test_save_and_load(model, tmp_path):
    for path in (tmp_path / "a.safetensors", str(tmp_path / "b")):
        assert model.save(path) is None
        assert fingerprint(onkel.load(path)) == fingerprint(model)


def test_others_can_read_it(model, tmp_path):
    from safetensors import safe_open

    path = tmp_path / "model.safetensors"
    model.save(path)
    with safe_open(path, "numpy") as file:
        held = json.loads(file.metadata()["model"])
        births, panels = (file.get_tensor(f"learner.terms.{n}") for n in ("births", "panels"))
        assert file.metadata()["format"] == "onkel"
    assert held["estimator"] == "KernelClassifier"
    assert held["state"]["classes.labels"] == ["up", "down"]
    rows = panels.transpose(0, 2, 1).reshape(-1, 2)[births > 0]
    assert len(rows) == model.n_terms_


def test_arrays_lie_aligned(model):
    data = files.dumps(model)
    length = int.from_bytes(data[:8], "little")
    assert length % 8 == 0
    for name, held in json.loads(data[8 : 8 + length]).items():
        if name != "__metadata__" and held["dtype"] in ("F64", "I64"):
            assert held["data_offsets"][0] % 8 == 0


def test_the_file_is_as_any_new_one(model, tmp_path):
    old = os.umask(0o027)
    try:
        model.save(tmp_path / "m")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "m").stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["m"]


def test_links_are_followed(model, tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "m").symlink_to(tmp_path / "there" / "real")
    model.save(tmp_path / "m")
    assert (tmp_path / "m").is_symlink()
    assert (tmp_path / "there" / "real").is_file()


def test_trouble_of_the_system_stays_what_it_is(model, tmp_path):
    with pytest.raises(FileNotFoundError):
        onkel.load(tmp_path / "none")
    with pytest.raises(IsADirectoryError):
        onkel.load(tmp_path)
    with pytest.raises(FileNotFoundError):
        model.save(tmp_path / "no" / "folder")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError):
        model.save(tmp_path / "folder")
    assert os.listdir(tmp_path) == ["folder"]
    with pytest.raises(TypeError, match="loads takes bytes; got str"):
        files.loads("model")


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_a_failure_leaves_the_old_file(step, model, tmp_path, monkeypatch):
    path = tmp_path / "m"
    path.write_bytes(b"what was there")

    def fail(*args):
        raise OSError("no space left")

    if step == "write":
        monkeypatch.setattr(container, "pieces_of", lambda *a: iter([bytes(100), None]))
        error = TypeError
    else:
        monkeypatch.setattr(os, step, fail)
        error = OSError
    with pytest.raises(error):
        model.save(path)
    assert path.read_bytes() == b"what was there"
    assert os.listdir(tmp_path) == ["m"]


def test_it_is_on_the_disk_before_it_has_its_name(model, tmp_path, monkeypatch):
    """Synced, then renamed, then the folder synced: the order that survives a power failure."""
    order = []
    fsync, replace = os.fsync, os.replace

    def noted_fsync(handle):
        order.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        fsync(handle)

    def noted_replace(a, b):
        order.append("name")
        assert Path(a).parent == Path(b).parent
        assert files.loads(Path(a).read_bytes()).t_ == model.t_
        replace(a, b)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "replace", noted_replace)
    model.save(tmp_path / "m")
    assert order == ["file", "name", "folder"]


KILLED = """
import os, sys, threading, numpy as np
from onkel import KernelRegressor
X = np.random.default_rng(0).normal(size=(400, 50))
model = KernelRegressor().partial_fit(X, X[:, 0])
model.save(sys.argv[1])
print("ready", flush=True)
while True:
    model.partial_fit(X[:10], X[:10, 0])
    model.save(sys.argv[1])
"""


def test_a_killed_process_leaves_a_whole_file(tmp_path):
    path = tmp_path / "m"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for i in range(size(2, 4)):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, path], env=env, stdout=subprocess.PIPE
        )
        assert process.stdout.readline() == b"ready\n"
        try:
            process.wait(0.02 + 0.013 * i)
        except subprocess.TimeoutExpired:
            process.kill()
        process.wait()
        process.stdout.close()
        assert onkel.load(path).t_ >= 400


def edited(data, change):
    """The file with another header (and a digest that is right again)."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    change(header)
    text = json.dumps(header, separators=(",", ":")).encode()
    return sealed(text + b" " * (-len(text) % 8), data[8 + length :])


def test_the_helper_gives_the_same_file(model):
    data = files.dumps(model)
    assert edited(data, lambda header: None) == data


def test_a_newer_file_says_so(model, tmp_path):
    data = edited(files.dumps(model), lambda h: h["__metadata__"].update(version="7", extra="?"))
    path = tmp_path / "new.safetensors"
    path.write_bytes(data)
    expected = r"new.safetensors.*newer onkel \(format 7, this one reads up to 1\): upgrade"
    with pytest.raises(ValueError, match=expected):
        onkel.load(path)


@pytest.mark.parametrize("version", ["0", "-1", "1.0", "", "x", "9" * 5000, "²"])
def test_a_version_that_is_none(version, model):
    data = edited(files.dumps(model), lambda h: h["__metadata__"].update(version=version))
    with pytest.raises(ValueError, match="header"):
        files.loads(data)


def test_older_files_are_brought_up_to_date(model, monkeypatch):
    """How a later version adds a field: one function that gives it the value that was meant."""
    old = edited(
        files.dumps(model), lambda h: h["__metadata__"].update(
            model=h["__metadata__"]["model"].replace('"learner.mistakes"', '"learner.errors"')
        )
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"learner.mistakes is missing"):
        files.loads(old)

    def renamed(found, tensors):
        found["state"]["learner.mistakes"] = found["state"].pop("learner.errors")

    monkeypatch.setattr(container, "FORMAT", 2)
    monkeypatch.setattr(models, "FORMAT", 2)
    monkeypatch.setitem(models.UPGRADES, 1, renamed)
    assert fingerprint(files.loads(old)) == fingerprint(model)


def test_each_version_has_its_upgrade():
    assert sorted(models.UPGRADES) == [*range(1, files.FORMAT)]


def test_other_files(tmp_path, model):
    import safetensors.numpy

    path = tmp_path / "m"
    for data in (
        b"", b"x", b"\x80\x04N.", b"PK\x03\x04" * 100, bytes(5000), b"\xff" * 300,
        safetensors.numpy.save({"a": np.zeros(3)}), safetensors.numpy.save({}, {"format": "pt"}),
        files.dumps(model)[:50], files.dumps(model)[:-1], files.dumps(model) + b"\0",
    ):  # fmt: skip
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"m: cannot load this model: .*damaged"):
            onkel.load(path)


def test_light(tmp_path):
    """safetensors and json are loaded by those who save or load, not by those who learn."""
    code = (
        "import sys, numpy; from onkel import KernelRegressor;"
        "m = KernelRegressor().partial_fit([[0.0]], [1.0]); print('safetensors' in sys.modules);"
        f"m.save({str(tmp_path / 'm')!r}); import onkel;"
        f"print(onkel.load({str(tmp_path / 'm')!r}).t_, 'safetensors' in sys.modules)"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], env=env,
                          capture_output=True, text=True, check=True)  # fmt: skip
    assert done.stdout.split() == ["False", "1", "True"]
