"""No package of onkel reaches for another's private names: ``python tools/private_names.py``.

A package is a direct child of ``onkel``, module or folder; each folder of ``onkel/app`` is one of
its own. A name is private if it begins with one underscore. Refused are

- ``from onkel.other import _name``, and ``module._name`` of a module of another package;
- ``thing._name`` that no class of the same package has. Where the class of the thing can be told
  (by annotations, or by being made right there), that very class or a base must have it in this
  package; where it cannot, no package that this one imports from may have a member of that name;
- ``self._name``, where only a base class of another package has it. A subclass may define what its
  base leaves to it, and may then use it;
- the same in ``getattr``, ``hasattr``, ``setattr`` and ``delattr``;
- private names of other people's libraries, unless ``FOREIGN`` says why.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ANYWHERE = {"_replace", "_fields", "_asdict", "_make", "_value_"}
"""What named tuples and enums call their public members."""
FOREIGN: dict[str, str] = {}
"""Private names of other people's libraries that we use, and why."""
BY_TEXT = {"getattr", "hasattr", "setattr", "delattr"}


def is_private(name: str) -> bool:
    """Whether a name begins with one underscore (``_`` alone is a name for what nobody wants)."""
    return name.startswith("_") and not name.startswith("__") and len(name) > 1


@dataclass
class Class:
    """A class: where it is, what it is derived from, and its private members."""

    package: str
    bases: list[str]
    members: set[str]
    told: dict[str, str]
    """What annotations say of its public and private members: the class of a field or result."""


@dataclass
class Module:
    """A file: its dotted name, its package, and what its names stand for elsewhere."""

    path: Path
    name: str
    package: str
    tree: ast.Module
    imported: dict[str, str] = field(default_factory=dict)


class Tree:
    """All files of the package, and all classes in them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.modules = {m.name: m for m in map(self._module, sorted(root.rglob("*.py")))}
        self.classes: dict[str, Class] = {}
        self.results: dict[str, str] = {}
        for module in self.modules.values():
            module.imported = dict(imports(module.tree))
        for module in self.modules.values():
            for name, node in annotated(module.tree):
                self.results[f"{module.name}.{name}"] = self.target(module, node)
            for kind in classes_in(module.tree):
                name = f"{module.name}.{kind.name}"
                bases = [self.target(module, base) for base in kind.bases]
                told = {n: self.target(module, a, name) for n, a in annotated(kind)}
                self.classes[name] = Class(module.package, bases, {*members_of(kind)}, told)

    def _module(self, path: Path) -> Module:
        parts = path.relative_to(self.root.parent).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        rooms = parts[1:-1] if path.name != "__init__.py" else parts[1:]
        package = parts[1] if len(parts) > 1 else self.root.name
        if package == "app" and len(rooms) > 1:
            package = ".".join(rooms[:2])
        return Module(path, ".".join(parts), package, ast.parse(path.read_text()))

    def target(self, module: Module, node: ast.expr, inside: str = "") -> str:
        """Return the full dotted name of what an expression names, as far as it can be told."""
        if isinstance(node, ast.BinOp):  # C | None
            none = isinstance(node.left, ast.Constant)
            return self.target(module, node.right if none else node.left, inside)
        if isinstance(node, ast.Name) and node.id == "Self":
            return inside
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.insert(0, node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        first = module.imported.get(node.id, f"{module.name}.{node.id}")
        return self.followed(".".join([first, *parts]))

    def followed(self, name: str) -> str:
        """Return where a name is defined that a module may only have imported."""
        for _ in range(9):
            home, _, last = name.rpartition(".")
            module = self.modules.get(home)
            if name in self.modules or module is None or last not in module.imported:
                return name
            name = module.imported[last]
        return name

    def holders(self, name: str, member: str, seen: frozenset[str] = frozenset()) -> Iterator[str]:
        """Yield the packages of a class and its bases that have such a member."""
        found = self.classes.get(name)
        if found is None or name in seen:
            return
        if member in found.members:
            yield found.package
        for base in found.bases:
            yield from self.holders(base, member, seen | {name})

    def result(self, name: str, member: str, of: str = "") -> str:
        """Return the class that a class's member is, or gives when called; "" if nobody says."""
        found = self.classes.get(name)
        if found is None:
            return ""
        if member in found.told:  # what returns Self gives what it was asked of
            return of or name if found.told[member] == name else found.told[member]
        return next(filter(None, (self.result(b, member, of or name) for b in found.bases)), "")

    def owners(self, member: str) -> set[str]:
        """Return the packages in which some class has such a member."""
        return {c.package for c in self.classes.values() if member in c.members}

    def known_to(self, package: str) -> set[str]:
        """Return the packages that one imports anything from."""
        names = [n for m in self.modules.values() if m.package == package
                 for n in m.imported.values()]  # fmt: skip
        homes = (self.modules.get(n) or self.modules.get(n.rpartition(".")[0]) for n in names)
        return {home.package for home in homes if home is not None} - {package}


def imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield what imported names stand for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                plain = alias.name if alias.asname else alias.name.partition(".")[0]
                yield alias.asname or plain, plain
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def annotated(node: ast.Module | ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    """Yield functions with what they return, and fields with what they are."""
    for part in node.body:
        if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)) and part.returns is not None:
            yield part.name, part.returns
        elif isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            yield part.target.id, part.annotation


def classes_in(tree: ast.Module) -> Iterator[ast.ClassDef]:
    """Yield all classes of a file."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def members_of(node: ast.ClassDef) -> Iterator[str]:
    """Yield the private members of a class: methods, fields, slots, what methods set on self."""
    for part in node.body:
        if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from filter(is_private, [part.name])
        elif isinstance(part, (ast.Assign, ast.AnnAssign)):
            targets = part.targets if isinstance(part, ast.Assign) else [part.target]
            yield from (t.id for t in targets if isinstance(t, ast.Name) and is_private(t.id))
            if part.value is not None and targets[0].__dict__.get("id") == "__slots__":
                yield from filter(is_private, map(str, ast.literal_eval(part.value)))
    for inner in ast.walk(node):
        if not isinstance(inner, ast.Attribute) or not isinstance(inner.ctx, ast.Store):
            continue
        if ast.unparse(inner.value) == "self" and is_private(inner.attr):
            yield inner.attr


@dataclass(frozen=True)
class Finding:
    """A private name where it should not be."""

    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


class Check(ast.NodeVisitor):
    """Finds the private names of other packages in one file."""

    def __init__(self, tree: Tree, module: Module) -> None:
        self.tree, self.module = tree, module
        self.inside: list[str] = []
        self.kinds: list[dict[str, str]] = [{}]
        self.found: list[Finding] = []

    def refuse(self, node: ast.AST, text: str) -> None:
        line = node.lineno if isinstance(node, (ast.expr, ast.stmt)) else 0
        self.found.append(Finding(self.module.path, line, text))

    # -- what things are -----------------------------------------------------------------------

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.inside.append(f"{self.module.name}.{node.name}")
        self.generic_visit(node)
        self.inside.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        known = {a.arg: self.named(a.annotation) for a in every}
        self.kinds.append({**self.kinds[-1], **known})
        self.generic_visit(node)
        self.kinds.pop()

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Assign(self, node: ast.Assign) -> None:
        self.generic_visit(node)
        for target in node.targets:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = [*zip(target.elts, node.value.elts, strict=False)]
            for left, right in pairs:
                for name in ast.walk(left):
                    if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store):
                        self.kinds[-1][name.id] = self.kind_of(right) if name is left else ""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.generic_visit(node)
        if isinstance(node.target, ast.Name):
            self.kinds[-1][node.target.id] = self.named(node.annotation)

    def named(self, node: ast.expr | None) -> str:
        """Return the class that an annotation names, "" if that is not told."""
        found = "" if node is None else self.tree.target(self.module, node)
        return found if found in self.tree.classes else ""

    def kind_of(self, thing: ast.expr) -> str:
        """Return the class or module that an expression stands for, "" if that is not told."""
        if isinstance(thing, ast.Call):
            return self.kind_of_call(thing)
        if isinstance(thing, ast.Name):
            if thing.id in ("self", "cls") and self.inside and not self.kinds[-1].get(thing.id):
                return self.inside[-1]
            if thing.id in self.kinds[-1]:
                return self.kinds[-1][thing.id]
        if isinstance(thing, ast.Attribute):
            found = self.tree.result(self.kind_of(thing.value), thing.attr)
            if found:
                return found
        found = self.tree.target(self.module, thing)
        return found if found in self.tree.classes or found in self.tree.modules else ""

    def kind_of_call(self, call: ast.Call) -> str:
        called = call.func
        if isinstance(called, ast.Name) and called.id == "super":
            return self.inside[-1] if self.inside else ""
        if isinstance(called, ast.Call):  # type(x)(...)
            made = isinstance(called.func, ast.Name) and called.func.id == "type" and called.args
            return self.kind_of(called.args[0]) if made else ""
        if isinstance(called, ast.Attribute):
            if ast.unparse(called) in ("copy.copy", "copy.deepcopy") and call.args:
                return self.kind_of(call.args[0])
            if called.attr == "__new__":
                return self.inside[-1] if self.inside else ""
            found = self.tree.result(self.kind_of(called.value), called.attr)
            if found:
                return found
        name = self.tree.target(self.module, called)
        return name if name in self.tree.classes else self.tree.results.get(name, "")

    # -- private names -------------------------------------------------------------------------

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        home = node.module or ""
        for alias in node.names:
            private = [p for p in f"{home}.{alias.name}".split(".") if is_private(p)]
            if not private or (home.partition(".")[0] != "onkel" and private[0] in FOREIGN):
                continue
            owner = next((m.package for n in (f"{home}.{alias.name}", home)
                          if (m := self.tree.modules.get(n))), None)  # fmt: skip
            if owner != self.module.package:
                self.refuse(node, f"imports {private[0]} of {home}")

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.generic_visit(node)
        if is_private(node.attr):
            self.check(node, node.value, node.attr)

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in BY_TEXT and len(node.args) > 1:
            name = node.args[1]
            if isinstance(name, ast.Constant) and is_private(str(name.value)):
                self.check(node, node.args[0], str(name.value))

    def check(self, node: ast.AST, thing: ast.expr, name: str) -> None:
        """Refuse ``thing._name`` where it is another package's."""
        if name in ANYWHERE or name in FOREIGN:
            return
        mine, kind, shown = self.module.package, self.kind_of(thing), ast.unparse(thing)
        if kind in self.tree.modules:
            owners = {self.tree.modules[kind].package}
        elif kind in self.tree.classes:
            owners = {*self.tree.holders(kind, name)} or self.tree.owners(name)
        else:
            owners = self.tree.owners(name)
            others = sorted(owners & self.tree.known_to(mine))
            if mine in owners and others:
                self.refuse(node, f"{shown}.{name} may be {others[0]}'s: say what {shown} is")
        if mine not in owners:
            whose = f"private to {', '.join(sorted(owners))}" if owners else "no name of ours"
            self.refuse(node, f"{shown}.{name} is {whose}")


def findings(root: Path) -> list[Finding]:
    """Return every private name that a package takes from another, in order of place."""
    tree = Tree(root)
    found: list[Finding] = []
    for module in tree.modules.values():
        check = Check(tree, module)
        check.visit(module.tree)
        found += check.found
    return sorted(found, key=lambda f: (f.path, f.line, f.text))


def main() -> int:
    """Print what was found; 1 if that is anything."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "onkel"
    found = findings(root)
    for finding in found:
        print(finding)
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
