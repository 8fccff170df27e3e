"""``_native.pyi`` says what the built module has: names, arguments, types, attributes.

After a change of the bindings, ``python tests/core/test_stub.py`` writes the file anew.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import re
from pathlib import Path

import pytest

native = pytest.importorskip("onkel.core._native", reason="no compiled core here")

HEAD = """# Written by tests/core/test_stub.py from the built module; a test compares the two.
from collections.abc import Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Wholes = NDArray[np.int64]
Ints = NDArray[np.int32]
Bytes = NDArray[np.uint8]

"""
DTYPES = {"float32": "Floats", "float64": "Doubles", "int64": "Wholes", "int32": "Ints",
          "uint8": "Bytes"}  # fmt: skip
SHOWN = ("__init__", "__len__")


def plain(signature):
    """A signature as nanobind has it, in the words of the stub."""
    text = re.sub(r"ndarray\[dtype=(\w+),[^\]]*\]", lambda m: DTYPES[m[1]], signature)
    for module in ("collections.abc.", "onkel.core._native.", "typing."):
        text = text.replace(module, "")
    return re.sub(r"= \\\d+", "= ...", text) + ": ..."


def functions(found):
    """The definitions of a function, one for each overload."""
    texts = [plain(signature) for signature, *_ in found.__nb_signature__]
    return [f"@overload\n{text}" for text in texts] if len(texts) > 1 else texts


def members(kind):
    """What a class has, line by line."""
    for name, found in vars(kind).items():
        if isinstance(found, property):
            (text,) = functions(found.fget)
            yield "@property\n" + text.replace("def (", f"def {name}(")
        elif hasattr(found, "__nb_signature__") and (name in SHOWN or not name.startswith("__")):
            yield from functions(found)


def stub():
    """The whole file."""
    parts = [HEAD]
    for name in sorted(vars(native), key=lambda n: (not n.isupper(), n)):
        found = getattr(native, name)
        if name.startswith("__"):
            continue
        if inspect.isclass(found):
            inside = "\n".join(members(found))
            parts.append(f"class {name}:\n" + re.sub(r"^", "    ", inside, flags=re.M))
        elif hasattr(found, "__nb_signature__"):
            parts.extend(functions(found))
        else:
            parts.append(f"{name}: {type(found).__name__}")
    return "\n".join(parts) + "\n"


FILE = Path(native.__file__).with_name("_native.pyi")
if not FILE.exists():  # an editable build keeps the module elsewhere
    import onkel.core

    FILE = Path(onkel.core.__file__).with_name("_native.pyi")


def test_the_stub_is_that_of_the_built_module():
    built, written = (
        ast.unparse(ast.parse(text)).splitlines() for text in (stub(), FILE.read_text("utf-8"))
    )
    differences = [*difflib.unified_diff(written, built, "_native.pyi", "the built module", n=0)]
    assert not differences, "\n".join(differences)


def test_no_part_takes_a_tuple_of_arrays():
    """What crosses the seam has a name; nodes of a program alone are tuples of numbers."""
    tuples = {m.group() for m in re.finditer(r"tuple\[[^\]]*\]", stub())}
    assert tuples == {"tuple[int, float, float, int]"}


if __name__ == "__main__":
    FILE.write_text(stub(), encoding="utf-8")
