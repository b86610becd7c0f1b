"""The tree keeps to its own rules: sizes, names, companions of compiled modules, live comments.

These rules are beyond ruff, mypy and import-linter. Each has a number or a list at the top of its
section; a failure names each place.
"""

import ast
import builtins
import functools
import io
import itertools
import keyword
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

MODULE_LINES_MAX = 500
TEST_LINES_MAX = 600
MODULE_LINES_GOOD = 400
FUNCTION_LINES_MAX = 70
CLASS_LINES_MAX = 400
PARAMETERS_MAX = 6

# Tables written by a tool: no size is asked of them.
GENERATED = {"kprod/protocol/messages.py", "kprod/protocol/error_table.py"}

# Modules between the two limits, each with what holds it together. One that shrinks leaves.
KEPT_TOGETHER: dict[str, str] = {
    "kprod/_core/arrow/arrow_columns.pyx": "each check of an array beside the column it binds",
    "kprod/_core/record/batch_builder.pyx": "one batch from its first record to its checksum",
    "kprod/broker/client_connection.py": "one connection: reading, processing, writing and its end",
    "kprod/broker/log/partition_log.py": "one log: appending, reading, truncating and syncing",
    "kprod/broker/log/segment.py": "one segment: its batches, and the indexes that follow them",
    "kprod/broker/replication.py": "one partition: leader, followers and high watermark",
}

# Functions and classes past a limit, each with its reason.
KEPT_WHOLE = {
    "kprod/_core/aio/async_send.pyx:send": "as the synchronous one's",
    "kprod/_core/record/consumer_record.pyx:__init__": "a parameter for each field",
    "kprod/_core/record/record_block.pyx:__init__": "what a fetch asks for, for each partition",
    "kprod/_core/send/send_path.pyx:send": "the public signature; its docstring is half of it",
}

# Names in backticks that belong to the system, or to the project that a comment cites.
FOREIGN_NAMES = {
    *("Condition", "IOV_MAX", "am_send", "rd_kafka_message_status", "shouldClientThrottle"),
}

FORBIDDEN_FILES = {"utils", "helpers", "common", "misc", "compat", "base", "tools"}
FORBIDDEN_WORDS = {"data", "info", "obj", "tmp", "stuff", "helper", "util", "manager"}
FORBIDDEN_STARTS = ("do_", "process_")
ALLOWED_NAMES = {"TransactionManager", "transaction_manager", "_transaction_manager"}
# Names that users of other libraries look for.
ALLOWED_THERE = {
    "kprod/producer/producer.py": {"data"},
    "kprod/broker/cluster.py": {"data_dir", "data_dirs"},
    "kprod/aio/async_producer.py": {"data"},
    "kprod/guarded_log.py": {"info", "exc_info"},  # the library's names
}

COMPILED_IMPORTS = {"kprod._core", "kprod.errors", "crc32c", "cython", "libc", "posix", "cpython"}

TOP_LAYERS = ("kprod/cli/", "kprod/aio/", "kprod/spark/")

_COMPILED_DEF = re.compile(
    r"^(?P<indent> *)(?:async +)?(?:def|cdef|cpdef)\b(?! class)[^=:(]*?(?P<name>\w+)\((?P<rest>.*)$"
)
_COMPILED_IMPORT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+c?import|c?import\s+([\w.]+))")


@functools.cache
def tracked() -> tuple[str, ...]:
    """Return the project's files, by git where there is one, else all that lie here."""
    try:
        listing = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split("\n")
    except (OSError, subprocess.CalledProcessError):
        listing = [str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if path.is_file()]
    return tuple(sorted(name for name in listing if name and (ROOT / name).is_file()))


def sources(*suffixes: str, under: str = "") -> list[str]:
    """Return the tracked files with one of some suffixes, generated tables left out."""
    return [
        name
        for name in tracked()
        if name.endswith(suffixes) and name.startswith(under) and name not in GENERATED
    ]


@functools.cache
def text_of(name: str) -> str:
    """Return a file's text."""
    return (ROOT / name).read_text(encoding="utf-8")


@functools.cache
def tree_of(name: str) -> ast.Module:
    """Return a Python file's syntax tree."""
    return ast.parse(text_of(name))


def functions_of(name: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return every function of a Python file, nested ones too."""
    for node in ast.walk(tree_of(name)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def compiled_functions_of(name: str) -> Iterator[tuple[str, int, int, str]]:
    """Return name, first line, line count and parameters of each function of a `.pyx`."""
    lines = text_of(name).split("\n")
    for number, line in enumerate(lines):
        match = _COMPILED_DEF.match(line)
        if match is None:
            continue
        signature, end = match["rest"], number
        while signature.count("(") >= signature.count(")") and end + 1 < len(lines):
            end += 1
            signature += lines[end]
        if not re.search(r"\)[^()]*:\s*(#.*)?$", lines[end]):
            continue  # a declaration or a call
        indent, last = len(match["indent"]), end
        for at in range(end + 1, len(lines)):
            if lines[at].strip() and len(lines[at]) - len(lines[at].lstrip()) <= indent:
                break
            last = at if lines[at].strip() else last
        yield match["name"], number + 1, last - number + 1, signature[: signature.rindex(")")]


# Sizes.


def test_modules_are_small() -> None:
    """No module is past 500 lines, no test file past 600; a module past 400 says why."""
    sizes = {name: text_of(name).count("\n") for name in sources(".py", ".pyx", ".pxd", ".pyi")}
    found = [
        f"{name}: {size} lines"
        for name, size in sizes.items()
        if size > (MODULE_LINES_MAX if name.startswith("kprod/") else TEST_LINES_MAX)
    ]
    long = {
        name
        for name, size in sizes.items()
        if size > MODULE_LINES_GOOD and name.startswith("kprod/")
    }
    found += [
        f"{name}: {sizes.get(name)} lines, and {'no reason' if name in long else 'a reason'}"
        for name in sorted(long ^ KEPT_TOGETHER.keys())
    ]
    assert not found, "\n" + "\n".join(found)


def test_faults_can_be_planted() -> None:
    """Every patch fits the code as it is and has its row; whether tests find it is for later."""
    rows = tomllib.loads(text_of("tests/mutants/mutants.toml"))["mutant"]
    patches = sorted((ROOT / "tests/mutants").glob("*.patch"))
    fuzzed = sorted((ROOT / "tests/fuzz/planted").glob("*.patch"))
    simulated = sorted((ROOT / "tests/sim/planted").glob("*.patch"))
    check = ["git", "apply", "--check", "--unsafe-paths"]
    unfit = [
        patch.name
        for patch in [*patches, *fuzzed, *simulated]
        if subprocess.run([*check, str(patch)], cwd=ROOT, check=False).returncode
    ]
    assert {patch.stem for patch in fuzzed} == {row["fuzz"] for row in rows if "fuzz" in row}
    assert {patch.stem for patch in patches} == {row["name"] for row in rows if "fuzz" not in row}
    assert not unfit


def test_functions_and_classes_are_small() -> None:
    """A function fits on a screen and a half; a class is no longer than a module should be."""
    found = []
    for name in sources(".py"):
        for node in ast.walk(tree_of(name)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                limit = FUNCTION_LINES_MAX
            elif isinstance(node, ast.ClassDef):
                limit = CLASS_LINES_MAX
            else:
                continue
            size = (node.end_lineno or node.lineno) - node.lineno + 1
            if size > limit and f"{name}:{node.name}" not in KEPT_WHOLE:
                found.append(f"{name}:{node.lineno} {node.name}: {size} lines")
    for name in sources(".pyx"):
        for function, number, size, _ in compiled_functions_of(name):
            if size > FUNCTION_LINES_MAX and f"{name}:{function}" not in KEPT_WHOLE:
                found.append(f"{name}:{number} {function}: {size} lines")
    assert not found, "\n" + "\n".join(found)


def test_compiled_functions_ask_for_little() -> None:
    """At most six parameters, `self` aside; ruff sees to the Python modules."""
    found = []
    for name in sources(".pyx"):
        for function, number, _, signature in compiled_functions_of(name):
            parameters = [part.strip() for part in _split_parameters(signature)]
            named = [part for part in parameters if part and part not in {"self", "cls", "*", "/"}]
            if len(named) > PARAMETERS_MAX and f"{name}:{function}" not in KEPT_WHOLE:
                found.append(f"{name}:{number} {function}: {len(named)} parameters")
    assert not found, "\n" + "\n".join(found)


def _split_parameters(signature: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for at, character in enumerate(signature):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append(signature[start:at])
            start = at + 1
    return [*parts, signature[start:]]


# Names.


def test_no_file_is_a_drawer_for_everything() -> None:
    """A file is called after the noun it owns; `utils` owns none."""
    found = [
        name
        for name in sources(".py", ".pyx", ".pxd", ".pyi", under="kprod/")
        if FORBIDDEN_FILES & set(Path(name).with_suffix("").parts[1:])
    ]
    assert not found, "\n" + "\n".join(found)


def test_names_say_their_meaning() -> None:
    """No name of our own holds a word that could mean anything."""
    found = []
    for name in sources(".py", under="kprod/"):
        found += [
            f"{name}:{at} {word}"
            for word, at in _defined(tree_of(name))
            if _is_vague(word) and word not in ALLOWED_THERE.get(name, set())
        ]
    for name in sources(".pyx", under="kprod/"):
        for function, number, _, _ in compiled_functions_of(name):
            if _is_vague(function):
                found.append(f"{name}:{number} {function}")
    assert not found, "\n" + "\n".join(found)


def _defined(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name, node.lineno
            case ast.arg():
                yield node.arg, node.lineno
            case ast.Name(ctx=ast.Store()):
                yield node.id, node.lineno
            case ast.Attribute(ctx=ast.Store()):
                yield node.attr, node.lineno


def _is_vague(name: str) -> bool:
    if name in ALLOWED_NAMES:
        return False
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().lstrip("_")
    words = {word.removesuffix("s") for word in snake.split("_")} | set(snake.split("_"))
    return bool(words & FORBIDDEN_WORDS) or snake.startswith(FORBIDDEN_STARTS)


# Compiled modules.


def test_compiled_modules_have_their_companions() -> None:
    """A `.pyx` has its `.pxd` and its `.pyi`.

    A `.py` that is compiled as it stands has a `.pxd` too, and needs no `.pyi`.
    """
    of = {
        suffix: {Path(n).with_suffix("") for n in sources(suffix, under="kprod/")}
        for suffix in (".pyx", ".pxd", ".pyi", ".py")
    }
    assert of[".pyx"] - of[".pxd"] == set()
    assert of[".pyx"] == of[".pyi"]
    # A .pxd alone is a header: all of it inline.
    headers = [f"{name}.pxd" for name in of[".pxd"] - of[".pyx"] - of[".py"]]
    assert [name for name in headers if "cdef inline" not in text_of(name)] == []


def test_compiled_modules_import_only_their_own_layer() -> None:
    """import-linter cannot read a `.pyx`: errors, the core, checksums and the standard library."""
    found = []
    for name in sources(".pyx", ".pxd", under="kprod/_core/"):
        for number, line in enumerate(text_of(name).split("\n"), start=1):
            match = _COMPILED_IMPORT.match(line)
            if match is None:
                continue
            module = match[1] or match[2]
            top = module.split(".")[0]
            if top in sys.stdlib_module_names or _is_within(module, COMPILED_IMPORTS):
                continue
            found.append(f"{name}:{number} {module}")
    assert not found, "\n" + "\n".join(found)


def _is_within(module: str, packages: set[str]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def test_only_the_top_layers_import_the_public_names() -> None:
    """`from kprod import …` reaches up to the producer; import-linter is told to overlook it."""
    found = [
        f"{name}:{node.lineno}"
        for name in sources(".py", under="kprod/")
        if not name.startswith(TOP_LAYERS)
        for node in ast.walk(tree_of(name))
        if (isinstance(node, ast.ImportFrom) and node.module == "kprod")
        or (isinstance(node, ast.Import) and any(a.name == "kprod" for a in node.names))
    ]
    assert not found, "\n" + "\n".join(found)


def test_lines_of_the_log_are_guarded() -> None:
    """Logging runs the application's code: no module asks the library for a logger itself."""
    found = [
        f"{name}:{number}"
        for name in sources(".py", ".pyx", under="kprod/")
        if name != "kprod/guarded_log.py"
        for number, line in enumerate(text_of(name).split("\n"), 1)
        if re.search(r"\bgetLogger\b|\blogging\.(debug|info|warning|error|exception|log)\(", line)
    ]
    assert not found, "\n" + "\n".join(found)


# One form for what could be written in two.

_UNEVEN = re.compile(
    "|".join(
        (
            r"\b_LO" + r"G\b",  # _logger
            r"Thread " + r"rule:",  # Thread-safety:
            r"# no" + r"qa: [A-Z0-9, ]+  #",  # a dash before the reason
        )
    )
)


def test_one_thing_is_written_in_one_way() -> None:
    """Loggers, suppressions, sections of docstrings, and texts of errors, which stand inline."""
    found = []
    for name in sources(".py", ".pyx", ".pxd"):
        text = text_of(name)
        found += [
            f"{name}:{text.count(chr(10), 0, match.start()) + 1} {match[0]}"
            for match in _UNEVEN.finditer(text)
        ]
    for name in sources(".py"):
        found += [f"{name}:{line} text not inline" for line in _texts_beside(tree_of(name))]
    assert not found, "\n" + "\n".join(found)


def _texts_beside(tree: ast.Module) -> Iterator[int]:
    """Yield the line of each text that is named only for the `raise` behind it."""
    for node in ast.walk(tree):
        bodies = [getattr(node, field, None) for field in ("body", "orelse", "finalbody")]
        statements = itertools.chain(*(it for it in bodies if isinstance(it, list)))
        for text, raised in itertools.pairwise(statements):
            match text, raised:
                case ast.Assign(targets=[ast.Name(id="message" | "msg")]), ast.Raise():
                    yield text.lineno


# Comments.

_QUOTED = re.compile(r"(?<!`)`([A-Za-z_][\w.]*)(?:\(\))?`(?!`)")


@functools.cache
def _known_words() -> frozenset[str]:
    """Return every identifier that code here writes, and every word of its short texts."""
    words = {*dir(builtins), *keyword.kwlist, *sys.stdlib_module_names, *FOREIGN_NAMES}
    for name in sources(".py", ".pyi", under="kprod/") + sources(".py", under="tests/"):
        for token in tokenize.generate_tokens(io.StringIO(text_of(name)).readline):
            if token.type == tokenize.NAME:
                words.add(token.string)
            elif token.type == tokenize.STRING and "\n" not in token.string:
                words.update(re.findall(r"\w+", token.string))
    for name in sources(".pyx", ".pxd", under="kprod/"):
        code = re.sub(r'""".*?"""|#[^\n]*', "", text_of(name), flags=re.DOTALL)
        words.update(re.findall(r"\w+", code))
    for name in tracked():
        words.update(re.split(r"[/.]", name))
    for name in GENERATED & set(tracked()):
        words.update(re.findall(r"\w+", text_of(name)))
    return frozenset(words)


def _prose_of(name: str) -> Iterator[tuple[int, str]]:
    """Return comments and docstrings with their lines."""
    if name.endswith((".pyx", ".pxd")):
        for match in re.finditer(r'""".*?"""|#[^\n]*', text_of(name), flags=re.DOTALL):
            yield text_of(name).count("\n", 0, match.start()) + 1, match[0]
        return
    for token in tokenize.generate_tokens(io.StringIO(text_of(name)).readline):
        if token.type == tokenize.COMMENT or (
            token.type == tokenize.STRING and token.string.startswith('"""')
        ):
            yield token.start[0], token.string


def test_comments_name_what_exists() -> None:
    """A name in backticks is written by some code here: a comment does not outlive its subject."""
    found = [
        f"{name}:{at} `{quoted}`"
        for name in sources(".py", ".pyx", ".pxd", under="kprod/")
        for at, quoted in _quoted_in(name)
        if not _known_words().issuperset(quoted.split("."))
    ]
    assert not found, "\n" + "\n".join(found)


def _quoted_in(name: str) -> Iterator[tuple[int, str]]:
    for number, prose in _prose_of(name):
        for match in _QUOTED.finditer(prose):
            yield number + prose.count("\n", 0, match.start()), match[1]


# Every file.

_ELSEWHERE = re.compile(
    "|".join(
        (
            r"(?:files\.python" + r"hosted|py" + r"pi)\.org/(?:simple|packages)",
            r"repo1?\.(?:maven\.)?apache\.org/maven2|repo1\.maven" + r"\.org",
            r"--(?:extra-)?index" + r"-url[ =]\S*:",
            r"(?<![\w.])/(?:root|home/\w+|Users/\w+|work)/\w",
        )
    )
)


def test_no_file_depends_on_one_machine() -> None:
    """No registry's address and no path of somebody's machine is in any file."""
    found = []
    for name in tracked():
        try:
            text = text_of(name)
        except UnicodeDecodeError:
            continue
        found += [
            f"{name}:{text.count(chr(10), 0, match.start()) + 1} {match[0]}"
            for match in _ELSEWHERE.finditer(text)
        ]
    assert not found, "\n" + "\n".join(found)


def test_fragments_are_named_by_issue_and_type() -> None:
    """docs/changes holds one sentence or more per change, in a file `<issue>.<type>.md`."""
    pattern = re.compile(r"\d+(-[a-z-]+)?\.(feature|fix|change|doc|removal)\.md")
    fragments = [Path(name).name for name in tracked() if name.startswith("docs/changes/")]
    assert [name for name in fragments if pattern.fullmatch(name) is None] == []


# Tests.


@functools.cache
def _test_files() -> tuple[str, ...]:
    return tuple(name for name in sources(".py", under="tests/") if "/test_" in name)


def test_tests_neither_sleep_nor_mock() -> None:
    """Time is advanced, not waited for; collaborators are real or fakes."""
    found = []
    for name in sources(".py", under="tests/"):
        for node in ast.walk(tree_of(name)):
            match node:
                case ast.Import(names=names):
                    modules = [alias.name for alias in names]
                case ast.ImportFrom(module=module, names=names):
                    modules = [f"{module}.{alias.name}" for alias in names]
                case ast.Attribute(value=ast.Name(id=owner), attr=attr):
                    modules = [f"{owner}.{attr}"]
                case _:
                    continue
            found += [
                f"{name}:{node.lineno} {module}"
                for module in modules
                if module.startswith("unittest.mock") or module == "time.sleep"
            ]
    assert not found, "\n" + "\n".join(found)


def test_tests_have_a_sentence_and_an_assertion() -> None:
    """Each test says in one sentence what holds, and checks it."""
    found = []
    for name in _test_files():
        checks = {node.name for node in functions_of(name) if _asserts(node, set())}
        for node in functions_of(name):
            if not node.name.startswith("test_"):
                continue
            sentence = ast.get_docstring(node) or ""
            if not sentence.strip().endswith("."):
                found.append(f"{name}:{node.lineno} {node.name} has no sentence")
            if not _asserts(node, checks):
                found.append(f"{name}:{node.lineno} {node.name} asserts nothing")
    assert not found, "\n" + "\n".join(found)


def _asserts(function: ast.AST, checks: set[str]) -> bool:
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            return True
        if isinstance(node, ast.Call):
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name in checks or name in {"raises", "warns", "fail"}:
                return True
            if name.lstrip("_").startswith(("check", "assert", "expect")):
                return True
    return False


@pytest.mark.parametrize(
    ("name", "vague"),
    [
        ("user_data", True),
        ("metadata", False),
        ("InfoBox", True),
        ("do_send", True),
        ("document", False),
        ("utils", True),
        ("TransactionManager", False),
        ("BufferManager", True),
    ],
)
def test_vague_names_are_told_from_plain_ones(name: str, vague: bool) -> None:
    """The rule looks at whole words."""
    assert _is_vague(name) is vague
