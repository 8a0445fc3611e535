"""Checks what import-linter and mypy do not see: the imports of native parts, values and numbers by position."""

from __future__ import annotations

import ast
import functools
import importlib
import itertools
import re
import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import pybroker
from tests.tidy.sources import nodes, text, tree

ROOT = Path(pybroker.__file__).parent
PROJECT = tomllib.loads((ROOT.parent / "pyproject.toml").read_text())
LAYERS: list[str] = next(
    contract["layers"] for contract in PROJECT["tool"]["importlinter"]["contracts"] if contract["name"] == "Imports go down only"
)
DEPTH = {package.strip().removeprefix("pybroker."): depth for depth, row in enumerate(LAYERS) for package in row.split("|")}
NATIVE = sorted(path for form in ("*.pyx", "*.pxd", "*.pxi") for path in ROOT.rglob(form))
MADE_BY_POSITION = {
    "AbortedTransaction", "BatchMetadata", "ClientMetadata", "CommittedOffset", "Committer", "FetchedRecords", "Gathered",
    "LogAppendInfo", "LogOffsetMetadata", "OffsetKey", "OffsetsOfGroup", "PartitionProduceResult", "ProducerEntry",
    "RequestContext", "RequestHeader", "SessionResponse",
}  # fmt: skip
"""Tuples of the hot paths, which make them by position."""

MAKERS = re.compile(rf"\b(?:new_tuple|{'|'.join(sorted(MADE_BY_POSITION))})\(")


def test_there_are_native_parts_to_look_at() -> None:
    assert len(NATIVE) > 3


@pytest.mark.parametrize("path", NATIVE, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_imports_of_native_parts_go_down_only(path: Path) -> None:
    own = path.relative_to(ROOT).parts[0]
    imported = set(re.findall(r"(?m)^\s*(?:from|import|cimport) pybroker\.(\w+)", text(path)))
    above = {package for package in imported - {own} if DEPTH[package] <= DEPTH[own]}
    assert not above, f"{own} imports what is not below it"


class Made(NamedTuple):
    """The values by position of a tuple that is made, its class, and the fields that may be left out."""

    place: str
    cls: Any
    values: list[ast.expr]
    optional: Collection[str] = ()


OTHER_NAMES = {
    ("TopicPartition", "topic"): {"name"},
    ("TopicPartition", "partition"): {"index"},
    ("ClientMetadata", "host"): {"peer_host"},
    ("LogOffsetMetadata", "offset"): {"log_end_offset"},
    ("LogOffsetMetadata", "segment_base_offset"): {"base_offset"},
    ("LogOffsetMetadata", "position"): {"size"},
    ("FetchedRecords", "offset_metadata"): {"place"},
    ("PartitionProduceResult", "error_code"): {"code", "none", "present"},
    ("PartitionProduceResult", "base_offset"): {"first_offset"},
    ("PartitionProduceResult", "log_append_time_ms"): {"log_append_time"},
    ("CommittedOffset", "offset"): {"committed_offset", "no_offset"},
    ("CommittedOffset", "leader_epoch"): {"committed_leader_epoch", "no_leader_epoch"},
    ("CommittedOffset", "commit_ms"): {"commit_timestamp", "no_timestamp"},
    ("CommittedOffset", "expire_ms"): {"expire_timestamp"},
    ("OffsetKey", "group"): {"group_id"},
    ("OffsetKey", "topic"): {"name"},
    ("OffsetKey", "partition"): {"index"},
    ("BatchMetadata", "last_sequence"): {"sequence"},
    ("BatchMetadata", "last_offset"): {"offset"},
    ("BatchMetadata", "offset_delta"): {"delta"},
    ("BatchMetadata", "timestamp"): {"max_timestamp"},
    ("ProducerEntry", "producer_id"): {"no_producer_id"},
    ("ProducerEntry", "producer_epoch"): {"epoch"},
    ("ProducerEntry", "last_timestamp"): {"timestamp", "max_timestamp"},
    ("ProducerEntry", "transaction_first_offset"): {"first_offset", "no_offset"},
    ("SessionResponse", "error_code"): {"no_error"},
    ("SessionResponse", "session_id"): {"no_session_id"},
    ("SessionResponse", "results"): {"changed"},
    ("RequestHeader", "api_key"): {"key"},
    ("RequestHeader", "api_version"): {"version"},
}
"""The names of values that become a field of another name."""


def last_name(function: ast.expr) -> str:
    """Return the name of a function that a call gives, without its module."""
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


@functools.cache
def made_tuples() -> list[Made]:
    """Return the tuples that the package makes by position. Only a call of the class knows its defaults, `new_tuple` does not."""
    made = []
    for path in sorted(ROOT.rglob("*.py")):
        module = ".".join(("pybroker", *path.relative_to(ROOT).with_suffix("").parts))
        for node in nodes(tree(path)) if MAKERS.search(text(path)) else ():
            if not isinstance(node, ast.Call) or node.keywords:
                continue
            name, values, is_call = last_name(node.func), node.args, True
            if name == "new_tuple":
                assert path.with_name(path.name.replace("_python.py", "_native.pxd")).exists(), f"{module} is not compiled"
                named, literal = values
                assert isinstance(literal, ast.Tuple), f"{module}:{node.lineno}: the values have to stand there, to be counted"
                assert not any(isinstance(value, ast.Starred) for value in literal.elts)
                name, values, is_call = last_name(named), literal.elts, False
            elif name not in MADE_BY_POSITION or any(isinstance(value, ast.Starred) for value in values):
                continue  # a starred value is a row of another tuple, in its order
            cls = getattr(importlib.import_module(module), name)
            made.append(Made(f"{module}:{node.lineno}", cls, values, cls._field_defaults if is_call else ()))
    return made


def name_of(value: ast.expr) -> str | None:
    """Return the name by which a value goes in the code; None for a literal."""
    match value:
        case ast.Attribute(value=ast.Name(id="ErrorCode")):
            return "error_code"
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.lstrip("_").lower()
        case ast.BoolOp(values=[first, *_]):
            return name_of(first)
    return None


def wrong_fields(made: Made) -> list[str]:
    """Return what is wrong with the values of a tuple, compared with the fields of its class.

    Every field has a value, or may be left out. A value with a name has the name of its field, or one of OTHER_NAMES; so two
    names that change places are found. A literal, and an expression without a name, must only fit the type of a field that is a
    plain class: two literals of one type that change places are not found, neither is a variable that has the right name and the
    wrong content. The tuples that native code makes are not looked at; they are compared with those of the Python twins.
    """
    fields, hints = made.cls._fields, made.cls.__annotations__
    if len(fields) < len(made.values) or not set(fields[len(made.values) :]) <= set(made.optional):
        return [f"{made.place}: {made.cls.__name__} has {len(fields)} fields, but {len(made.values)} values are given"]
    wrong = []
    for field, value in zip(fields, made.values, strict=False):
        name = name_of(value)
        if name is not None and name != field and name not in OTHER_NAMES.get((made.cls.__name__, field), ()):
            wrong.append(f"{made.place}: {made.cls.__name__}.{field} gets `{ast.unparse(value)}`")
        if isinstance(value, ast.Constant) and not fits(value.value, str(hints[field])):
            wrong.append(f"{made.place}: {made.cls.__name__}.{field} gets {value.value!r}")
    return wrong


def fits(literal: object, hint: str) -> bool:
    """Return whether a literal can be in a field that has this annotation; True for annotations that are not plain classes."""
    plain = {"int": int, "bool": bool, "str": str, "bytes": bytes}
    hint = re.sub(r"^ForwardRef\('([^']*)'.*", r"\1", hint)
    return type(literal) is plain.get(hint, type(literal))


def test_a_tuple_that_is_made_by_position_has_each_value_in_its_field() -> None:
    made = made_tuples()
    assert made
    assert [fault for one in made for fault in wrong_fields(one)] == []


class Sample(NamedTuple):
    offset: int
    size: int
    is_last: bool


@pytest.mark.parametrize(
    ("values", "faults"),
    [
        ("offset, self._size, not more", 0),
        ("offset, size, True", 0),
        ("size, offset, True", 2),
        ("offset, 1, 0", 1),
        ("offset, True, True", 1),
        ("found.size or 0, 1, True", 1),
        ("offset, size", 1),
        ("offset, size, True, None", 1),
    ],
)
def test_swapped_and_missing_values_of_a_tuple_are_found(values: str, faults: int) -> None:
    call = ast.parse(f"Sample({values})", mode="eval").body
    assert isinstance(call, ast.Call)
    assert len(wrong_fields(Made("here", Sample, call.args))) == faults


def test_only_a_field_that_may_be_left_out_needs_no_value() -> None:
    values: list[ast.expr] = [ast.Name("offset"), ast.Name("size")]
    assert len(wrong_fields(Made("here", Sample, values))) == 1
    assert wrong_fields(Made("here", Sample, values, ("is_last",))) == []
    assert len(wrong_fields(Made("here", Sample, values[:1], ("is_last",)))) == 1


def test_every_other_name_of_a_field_is_used() -> None:
    used = {
        (one.cls.__name__, field): name_of(value)
        for one in made_tuples()
        for field, value in zip(one.cls._fields, one.values, strict=False)
    }
    assert set(OTHER_NAMES) <= set(used)


NUMBERS = {"int", "int | None", "float"}
IDS = {
    "BrokerId", "CoordinatorEpoch", "GenerationId", "GroupEpoch", "LeaderEpoch", "MemberEpoch", "Offset", "ProducerEpoch",
    "ProducerId",
}  # fmt: skip
"""Types that mypy keeps apart from numbers and from each other, but not two of a kind."""
NAMED = sorted(path.name for path in ROOT.iterdir() if (path / "__init__.py").exists())
"""Packages whose functions take two numbers of a kind side by side by name, so that they cannot be swapped."""
PLACES = {("position", "end"), ("position", "size"), ("position", "length"), ("length", "position"), ("position", "count")}
"""Where bytes lie, in the order that every reader of bytes and files has; by position, as they are read for each record."""
BY_POSITION = {
    "between": "low and high, as they are read",
    "set_write_buffer_limits": "a transport of asyncio has it so",
    "between_or": "low and high, as they are read",
    "increment_sequence": "a sum, whose terms may change places",
    "_record": "called for each record",
    "_read_record": "called for each record",
    "_read": "called for each number of a record",
    "add": "on the hot path, where a call by position is a third of a call by name",
    "append_as_leader": "on the hot path",
    "append_one": "on the hot path",
    "append_records_to_leader": "on the hot path",
    "completed": "on the hot path",
    "encode_response": "on the hot path",
    "find_batch": "on the hot path",
    "_find": "on the hot path",
    "copy": "on the hot path",
    "write_batches": "on the hot path",
    "send": "the signature of kafka-python's method of that name, which it stands for",
    "produced": "on the hot path",
    "should_roll": "on the hot path",
    "observe_request": "on the hot path, and in C",
}


def are_of_a_kind(first: ast.arg, second: ast.arg) -> bool:
    if (first.arg, second.arg) in PLACES or first.arg == "fd" or first.annotation is None or second.annotation is None:
        return False
    one, other = ast.unparse(first.annotation), ast.unparse(second.annotation)
    return {one, other} <= NUMBERS or (one.removesuffix(" | None") == other.removesuffix(" | None") and one.split(" ")[0] in IDS)


def with_numbers_by_position(module: ast.Module) -> list[str]:
    """Return the functions that take two numbers of a kind side by side by position, each with its line."""
    return [
        f"{node.lineno} {node.name}"
        for node in nodes(module)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name not in BY_POSITION
        if any(itertools.starmap(are_of_a_kind, itertools.pairwise([*node.args.posonlyargs, *node.args.args])))
    ]


def is_twin(path: Path) -> bool:
    """Return whether the module is the twin of a native part, to which numbers are given by position."""
    stem = path.stem.removesuffix("_python")
    return stem != path.stem and any(path.with_name(f"{stem}{end}").exists() for end in ("_native.pyx", "_native.pxd"))


@pytest.mark.parametrize("package", NAMED)
def test_numbers_side_by_side_are_passed_by_name(package: str) -> None:
    modules = [path for path in sorted((ROOT / package).rglob("*.py")) if not is_twin(path)]
    assert modules
    assert not {str(path): found for path in modules if (found := with_numbers_by_position(tree(path)))}


@pytest.mark.parametrize(
    ("arguments", "is_wrong"),
    [
        ("first: int, last: int", True),
        ("self, topic: str, count: int, wait_ms: float, end: str", True),
        ("offset: Offset, end: Offset | None", True),
        ("first: int, *, last: int", False),
        ("offset: Offset, count: int", False),
        ("position: int, size: int", False),
    ],
)
def test_a_function_with_numbers_by_position_is_found(arguments: str, is_wrong: bool) -> None:
    assert bool(with_numbers_by_position(ast.parse(f"def one({arguments}): ..."))) == is_wrong


def test_the_twins_are_exactly_those_of_native_parts() -> None:
    assert {path.stem for path in ROOT.rglob("*.py") if is_twin(path)} == {
        "_clock_python", "_codec_python", "_columns_python", "_connection_python", "_conversions_python", "_counters_python",
        "_counts_python", "_dispatch_python", "_end_python", "_file_end_python", "_forms_python", "_kernels_python",
        "_leading_python", "_limited_python", "_offset_loops_python", "_one_partition_python", "_partition_data_python",
        "_reading_python", "_receiver_python", "_repeats_python", "_sections_python", "_sender_python", "_slices_python",
        "_state_python", "_tail_python", "_usage_python", "_usual_python", "_watch_python",
    }  # fmt: skip


def test_every_function_that_takes_numbers_by_position_is_there() -> None:
    names = {
        node.name
        for path in ROOT.rglob("*.py")
        for node in nodes(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    native = {name for path in NATIVE for name in re.findall(r"(?m)^\s*(?:cp?)?def (?:[\w ]+ )?(\w+)\(", text(path))}
    assert set(BY_POSITION) <= names | native
