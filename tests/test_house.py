"""The house rules, as tests. Each message says what to do instead; docs/house.md says why.

Sizes are a ratchet: `ALLOWED_LARGER` names what is over a limit today and how large it may be. Rows only
shrink and vanish: a row that is no longer needed is itself a failure.
"""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from longest import LONGEST
from tenure.core.kernel import KERNEL_ROOMS
from tenure.core.words import Reason

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "tenure"

FILE_LINES = 500
FUNCTION_LINES = 70  # docstring not counted: saying what a thing means must never cost lines
KERNEL_LINES = 60
POSITIONAL = 6
KERNEL_POSITIONAL = 8

#: "path" (a file's lines), "path::function" (its lines), "path::function()" (its positional parameters).
ALLOWED_LARGER: dict[str, int] = {}

#: Modules that would let a clock, chance, names of the machine or the outside into the deciding core.
IMPURE = {
    "time": "take the instant as an argument, int64 seconds",
    "datetime": "take the instant as an argument, int64 seconds",
    "calendar": "take the instant as an argument, int64 seconds",
    "random": "chance is drawn before the simulation starts and lies in the world",
    "secrets": "chance is drawn before the simulation starts and lies in the world",
    "uuid": "names are row numbers in the core; the door gives ids",
    "os": "read the environment at the door (settings) and pass what you found",
    "sys": "the core does not know the process it runs in",
    "io": "readers and writers live in story/, settings/ and simulator/traces/",
    "pathlib": "readers and writers live in story/, settings/ and simulator/traces/",
    "json": "readers and writers live in story/, settings/ and simulator/traces/",
    "csv": "readers and writers live in story/, settings/ and simulator/traces/",
    "socket": "the core talks to nobody",
    "subprocess": "the core starts nothing",
    "threading": "one turn is one call; the caller decides where it runs",
    "asyncio": "one turn is one call; the caller decides where it runs",
    "logging": "return a decision with its Reason; whoever called may log it",
    "warnings": "return a decision with its Reason; whoever called may warn",
}
IMPURE_CALLS = {
    "print": "return a value; commands print through rich",
    "open": "readers and writers live in story/, settings/ and simulator/traces/",
    "input": "ask in cli/",
}
#: The one exception, with its reason.
PURE_EXCEPTIONS = {
    # names the folder of compiled code by a hash of the sources, and holds it while it is used
    "core/kernel.py": {"os", "sys", "pathlib", "fcntl"},
}

#: A library is imported in its one room only, so that it can be replaced there.
ROOM_OF = {
    "numba": ("core/kernel.py", "core/compiler.py"),
    "typer": ("cli/",),
    "click": ("cli/",),
    "rich": ("cli/",),
    "pydantic": ("settings/", "client/", "engines/slurm/settings.py"),
    "yaml": ("settings/",),
    "matplotlib": ("report/", "simulator/traces/describe_chart.py"),
    "jinja2": ("report/",),
    "pyarrow": ("simulator/traces/",),
    "distributed": ("service/",),
    "dask": ("service/",),
    "fastapi": ("web/",),
    "starlette": ("web/",),
    "uvicorn": ("web/",),
    "prometheus_client": ("web/",),
    "httpx": ("client/",),
    "sqlalchemy": ("ledger/",),
    "alembic": ("ledger/",),
    "psycopg": ("ledger/",),
    "smtplib": ("daemon/messages.py",),
    "pynvml": ("engines/local/",),
    "scipy": ("planner/",),
    "boto3": ("providers/",),
    "botocore": ("providers/",),
    "fsspec": ("checkpoints/",),
    "s3fs": ("checkpoints/",),
}
#: What the trainer's adapters may import, inside functions.
TRAINER_FRAMEWORKS = {"torch", "lightning", "pytorch_lightning", "transformers"}
FORBIDDEN_FILE_NAMES = {"utils", "util", "common", "helpers", "helper", "base", "misc"}


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def sources(*rooms: str) -> list[Path]:
    found = sorted(p for p in PACKAGE.rglob("*.py") if not rooms or p.relative_to(PACKAGE).parts[0] in rooms)
    assert found, f"no source files in {rooms or PACKAGE}"
    return found


def short(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of everything a file imports, at its top or inside a function."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def fail_if(found: list[str]) -> None:
    assert not found, "\n" + "\n".join(found)


def test_floors_hold_and_there_are_no_circles() -> None:
    command = Path(sys.executable).with_name("lint-imports")
    ran = subprocess.run([command, "--no-logo", "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, (
        "A file imports from its own or a higher floor. Move what is shared down, or ask for it as an "
        f"argument (docs/house.md has the floors):\n{ran.stdout}{ran.stderr}"
    )


def test_the_core_knows_no_clock_no_chance_and_no_outside() -> None:
    found = []
    for path in sources("core"):
        allowed = PURE_EXCEPTIONS.get(short(path), set())
        for line, name in imports(path):
            module = name.split(".")[0]
            if module in IMPURE and module not in allowed:
                found.append(f"core is pure: {short(path)}:{line} imports {module}; {IMPURE[module]}")
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Call) and dotted(node.func) in IMPURE_CALLS:
                name = dotted(node.func)
                found.append(
                    f"core is pure: {short(path)}:{node.lineno} calls {name}(); {IMPURE_CALLS[name]}"
                )
            if isinstance(node, ast.Attribute) and dotted(node).startswith(("np.random", "numpy.random")):
                found.append(
                    f"core is pure: {short(path)}:{node.lineno} uses {dotted(node)}; {IMPURE['random']}"
                )
    fail_if(found)


def test_all_chance_comes_from_seeded_generators() -> None:
    seeded = {"default_rng", "Generator", "SeedSequence", "PCG64", "PCG64DXSM", "Philox", "BitGenerator"}
    found = []
    for path in sources():
        for line, name in imports(path):
            if name.split(".")[0] == "random":
                found.append(f"{short(path)}:{line} imports random: use numpy.random.default_rng([seed, …])")
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Attribute):
                parts = dotted(node).split(".")
                if len(parts) == 3 and parts[:2] in (["np", "random"], ["numpy", "random"]):
                    if parts[2] not in seeded:
                        found.append(
                            f"{short(path)}:{node.lineno} uses the hidden state of {'.'.join(parts)}: "
                            "use numpy.random.default_rng([seed, …])"
                        )
            if isinstance(node, ast.Call) and dotted(node.func).endswith("default_rng") and not node.args:
                found.append(f"{short(path)}:{node.lineno} default_rng() without a seed: no answer repeats")
    fail_if(found)


def test_a_trainer_imports_the_standard_library_and_frameworks_only_when_used() -> None:
    """A training job must not pay for, or clash with, what a scheduler needs."""
    found = []
    for path in sources("trainer"):
        at_top = {id(node) for node in tree(path).body}
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            else:
                continue
            for name in names:
                own = name == "tenure.trainer" or name.startswith("tenure.trainer.")
                lazily = name.split(".")[0] in TRAINER_FRAMEWORKS and id(node) not in at_top
                if not own and not lazily and name.split(".")[0] not in sys.stdlib_module_names:
                    found.append(
                        f"{short(path)}:{node.lineno} imports {name}: the standard library alone, frameworks "
                        f"({', '.join(sorted(TRAINER_FRAMEWORKS))}) inside the function that uses them"
                    )
    fail_if(found)


def test_nothing_prints() -> None:
    fail_if(
        [
            f"{short(path)}:{node.lineno} print(): return a value; commands write through rich's console"
            for path in sources()
            for node in ast.walk(tree(path))
            if isinstance(node, ast.Call) and dotted(node.func) == "print"
        ]
    )


def test_no_file_is_named_for_nothing() -> None:
    fail_if(
        [
            f"{path.relative_to(ROOT)}: a name that says nothing; name it by the question it answers"
            for folder in (PACKAGE, ROOT / "tests", ROOT / "bench")
            for path in folder.rglob("*.py")
            if path.stem.strip("_") in FORBIDDEN_FILE_NAMES or path.parent.name in FORBIDDEN_FILE_NAMES
        ]
    )


def test_a_library_is_imported_in_its_one_room() -> None:
    found = []
    for path in sources():
        for line, name in imports(path):
            library = name.split(".")[0]
            rooms = ROOM_OF.get(library)
            if rooms and not short(path).startswith(rooms):
                found.append(
                    f"{short(path)}:{line} imports {library}, which lives in {' and '.join(rooms)} only: "
                    "call that room, or hand it what it needs"
                )
    fail_if(found)


def test_kernels_stand_where_the_cache_looks() -> None:
    """A kernel in another room would go on answering from old code (docs/decisions/0006-compile-cache.md)."""
    fail_if(
        [
            f"{short(path)}: @kernel outside {KERNEL_ROOMS}: add its room to KERNEL_ROOMS in core/kernel.py"
            for path in sources()
            if path.relative_to(PACKAGE).parts[0] not in KERNEL_ROOMS
            and any(is_kernel(function) for _, function in functions(path))
        ]
    )


Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(path: Path) -> Iterator[tuple[str, Function]]:
    def walk(node: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, Function):
                yield prefix + child.name, child
                yield from walk(child, f"{prefix}{child.name}.")
            else:
                yield from walk(
                    child, f"{prefix}{child.name}." if isinstance(child, ast.ClassDef) else prefix
                )

    return walk(tree(path), "")


def lines_of(function: Function) -> int:
    """Lines from `def` on, without the docstring."""
    total = (function.end_lineno or 0) - function.lineno + 1
    first = function.body[0]
    if (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    ):
        total -= (first.end_lineno or 0) - first.lineno + 1
    return total


def positional(function: Function) -> int:
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
    return len(names) - (1 if names[:1] in (["self"], ["cls"]) else 0)


def is_kernel(function: Function) -> bool:
    return any(dotted(d).split(".")[-1] in ("kernel", "entry") for d in function.decorator_list)


def measured_sizes() -> Iterator[tuple[str, int, int, str]]:
    """(name, size, limit, what to do) of every file and function of the package."""
    for path in sources():
        where = short(path)
        text_lines = path.read_text(encoding="utf-8").count("\n")
        yield where, text_lines, FILE_LINES, "cut it where its questions part"
        for name, function in functions(path):
            kernel = is_kernel(function)
            lines, parameters = lines_of(function), positional(function)
            yield (
                f"{where}::{name}",
                lines,
                KERNEL_LINES if kernel else FUNCTION_LINES,
                "give a step of it a name and a function",
            )
            advice = (
                "one argument a noun: put columns into a table"
                if kernel
                else "put `*` before the options, or group what belongs together"
            )
            yield (
                f"{where}::{name}()",
                parameters,
                KERNEL_POSITIONAL if kernel else POSITIONAL,
                advice,
            )


def test_files_and_functions_stay_small() -> None:
    found = []
    for name, size, limit, advice in measured_sizes():
        unit = "positional parameters" if name.endswith("()") else "lines"
        if size > ALLOWED_LARGER.get(name, limit):
            found.append(f"{name}: {size} {unit}, limit {ALLOWED_LARGER.get(name, limit)}: {advice}")
    fail_if(found)


def test_the_ratchet_only_tightens() -> None:
    sizes = {name: (size, limit) for name, size, limit, _ in measured_sizes()}
    fail_if(
        [
            f"ALLOWED_LARGER[{name!r}]: no longer needed, remove the row"
            for name in ALLOWED_LARGER
            if name not in sizes or sizes[name][0] <= sizes[name][1]
        ]
    )


def test_files_that_begin_first_are_there() -> None:
    gone = [name for name in LONGEST if not (ROOT / "tests" / f"{name}.py").exists()]
    assert not gone, "tests/longest.py names what is not there"
    assert len(set(LONGEST)) == len(LONGEST)


# --- a reason has four homes --------------------------------------------------------------------


def reasons() -> list[Reason]:
    return [reason for reason in Reason if reason is not Reason.NONE]


def test_every_reason_has_a_sentence() -> None:
    assert (PACKAGE / "core" / "explain.py").exists(), "core/explain.py with SENTENCES: Mapping[Reason, str]"
    explain = importlib.import_module("tenure.core.explain")
    missing = [reason.name for reason in reasons() if not str(explain.SENTENCES.get(reason, "")).strip()]
    assert not missing, f"write a sentence for each in core/explain.py SENTENCES: {missing}"


def test_every_reason_has_its_heading_in_order_of_precedence() -> None:
    text = (ROOT / "docs" / "reasons.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## +\d+\. +`([a-z_]+)`", text, flags=re.M)
    wanted = [reason.name.lower() for reason in sorted(reasons())]
    assert headings == wanted, (
        f"docs/reasons.md has a heading `## 1. `code`` for each reason, in order of precedence; "
        f"missing {sorted(set(wanted) - set(headings))}, unknown {sorted(set(headings) - set(wanted))}"
    )


def scenario_texts() -> dict[Path, str]:
    folder = ROOT / "tests" / "scenarios"
    files = [p for p in folder.rglob("*") if p.suffix in (".py", ".yaml", ".yml", ".txt", ".md")]
    return {path: path.read_text(encoding="utf-8") for path in files}


@pytest.mark.parametrize("reason", [r for r in Reason if r is not Reason.NONE], ids=lambda r: r.name.lower())
def test_every_reason_is_produced_by_a_scenario(reason: Reason) -> None:
    code = reason.name.lower()  # a bare `held` or `order` is an English word and proves nothing
    named = re.compile(rf"\bReason\.{reason.name}\b|\breason: *{code}\b|([\"']){code}\1")
    assert any(named.search(text) for text in scenario_texts().values()), (
        f"no scenario under tests/scenarios/ names Reason.{reason.name} (or `reason: {code}`): "
        "write one small world whose job waits for exactly this reason, and assert it"
    )


# --- what the repository may not say --------------------------------------------------------------

#: Put together from parts, so that this file does not hold what it forbids.
FORBIDDEN_TEXT = {
    "an absolute path of one machine": re.compile("/" + r"(?:work|root|mnt|home/[a-z]+|tmp/[a-z]+)" + "/"),
    "the host of a package registry": re.compile(
        r"(?:py"
        + r"pi\.org|python"
        + r"hosted\.|registry\.npm"
        + r"js|conda\.ana"
        + r"conda|/sim"
        + r"ple/\b)"
    ),
}


def committed_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout
    return [ROOT / name for name in listed.decode().split("\0") if name and (ROOT / name).is_file()]


def test_the_repository_names_no_machine_of_ours() -> None:
    found = []
    for path in committed_files():
        data = path.read_bytes()
        if b"\0" in data[:8000]:
            continue
        for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
            found += [
                f"{path.relative_to(ROOT)}:{number} holds {what}: {line.strip()[:80]}"
                for what, pattern in FORBIDDEN_TEXT.items()
                if pattern.search(line)
            ]
    fail_if(found)


def test_the_repository_holds_no_heavy_file() -> None:
    fail_if(
        [
            f"{path.relative_to(ROOT)}: {path.stat().st_size // 1000} kB; generate it, or leave it outside"
            for path in committed_files()
            if path.stat().st_size > 500_000
        ]
    )


def test_constraints_are_plain_pins() -> None:
    wrong = [
        line
        for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", line)
    ]
    assert not wrong, f"constraints.txt holds `name==version` only: {wrong}"
