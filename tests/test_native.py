"""How a module chooses between its native part and its Python twin, and what a part that cannot be used leads to."""

from __future__ import annotations

import importlib
import inspect
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from pybroker import native
from pybroker.native import PARTS, NativePartError

PACKAGE = Path(native.__file__).parent
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make a package `sums` with a Python twin; a test puts the native part beside it."""
    folder = tmp_path / "sums"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "_adder_python.py").write_text("__all__ = ['add']\ndef add(a, b):\n    return 'python'\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(native, "_chosen", {})
    monkeypatch.delenv(native.SWITCH, raising=False)
    yield folder
    for name in [name for name in sys.modules if name.split(".")[0] == "sums"]:
        del sys.modules[name]
    importlib.invalidate_caches()


def chosen() -> str:
    """Return what `add` does in a module that chooses."""
    twin = importlib.import_module("sums._adder_python")
    namespace = {"add": twin.add}
    is_native = native.choose(twin, namespace)
    assert native.parts()["sums.adder"] == is_native
    result: str = namespace["add"](1, 2)
    assert (result == "native") == is_native
    return result


def test_the_native_part_is_used_where_it_was_built(package: Path) -> None:
    (package / "_adder_native.py").write_text("def add(a, b):\n    return 'native'\n")
    assert chosen() == "native"


def test_the_python_twin_is_used_where_nothing_was_built(package: Path) -> None:
    assert package.exists()
    assert chosen() == "python"
    assert "sums.adder" in native.summary()
    assert "Install a C compiler and Python's headers" in native.summary()
    assert native.is_lacking()


def test_the_switch_forces_the_python_twin(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (package / "_adder_native.py").write_text("raise AssertionError('imported all the same')\n")
    monkeypatch.setenv(native.SWITCH, "1")
    assert chosen() == "python"
    assert not any(native.parts()[part] for part in PARTS)
    assert native.summary() == f"Native: none of {len(PARTS) + 1} parts, because of PYBROKER_PURE=1"
    assert not native.is_lacking()


@pytest.mark.parametrize("value", ["yes", "true", "2", " 1"])
def test_a_switch_that_is_neither_is_refused(package: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    assert package.exists()
    monkeypatch.setenv(native.SWITCH, value)
    with pytest.raises(NativePartError, match=f"^PYBROKER_PURE={value}: must be 1, for pure Python, or 0$"):
        chosen()


def test_a_broken_file_is_an_error_with_its_path(package: Path) -> None:
    path = package / f"_adder_native{SUFFIX}"
    path.write_bytes(b"\x7fELF and then nothing")
    with pytest.raises(NativePartError, match=f"^{path} was built and cannot be loaded: .*PYBROKER_PURE=1"):
        chosen()


@pytest.mark.parametrize("fault", ["raise ImportError('undefined symbol: x')", "import no_such_module", "{}['slot']", "1 / 0"])
def test_a_part_whose_import_fails_is_an_error_with_its_path(package: Path, fault: str) -> None:
    path = package / "_adder_native.py"
    path.write_text(fault)
    with pytest.raises(NativePartError, match=f"^{path} was built and cannot be loaded: ") as caught:
        chosen()
    assert caught.value.__cause__ is not None


def test_a_part_without_a_function_is_an_error_with_its_path(package: Path) -> None:
    path = package / "_adder_native.py"
    path.write_text("def subtract(a, b):\n    return 'native'\n")
    with pytest.raises(NativePartError, match=f"^{path} has no add: it belongs to another version"):
        chosen()


def test_a_part_that_was_built_for_another_python_only_is_an_error_with_its_path(package: Path) -> None:
    path = package / "_adder_native.cpython-27-x86_64-linux-gnu.so"
    path.touch()
    with pytest.raises(NativePartError, match=f"^{path} was built for another Python: this one loads _adder_native{SUFFIX} only"):
        chosen()
    (package / "_adder_native.py").write_text("def add(a, b):\n    return 'native'\n")
    importlib.invalidate_caches()
    assert chosen() == "native", "what other Pythons built does no harm beside our own"


def test_all_parts_are_listed() -> None:
    written = [
        path for kind in ("pyx", "pxd") for path in PACKAGE.glob(f"**/_*_native.{kind}")
    ]  # a .pxd alone: types of the twin
    sources = {".".join(path.relative_to(PACKAGE).with_suffix("").parts) for path in written}
    assert {f".{source}".replace("._", ".").removeprefix(".").removesuffix("_native") for source in sources} == set(PARTS)
    assert set(native.parts()) == set(PARTS)


def twins() -> Iterator[tuple[ModuleType, ModuleType]]:
    for part in PARTS:
        module = native.extension(native.sibling(part, "native"))
        if module is not None:
            yield importlib.import_module(native.sibling(part, "python")), module


def test_both_twins_have_the_same_names_and_parameters() -> None:
    for python, compiled in twins():
        for name in python.__all__:
            one, other = getattr(python, name), getattr(compiled, name)
            if not inspect.isclass(one):
                assert parameters(one) == parameters(other), f"{python.__name__}.{name}"
                continue
            for attribute, member in vars(one).items():
                if attribute.startswith("_") or attribute in one.__dict__.get("__slots__", ()):
                    continue
                if inspect.isfunction(member) and hasattr(other, attribute):
                    assert parameters(member) == parameters(getattr(other, attribute)), f"{python.__name__}.{name}.{attribute}"


def parameters(function: object) -> list[str]:
    assert callable(function)
    return list(inspect.signature(function).parameters)


def test_the_contract_stands_in_the_python_twin() -> None:
    for part in PARTS:
        python = importlib.import_module(native.sibling(part, "python"))
        for name in python.__all__:
            assert inspect.getdoc(getattr(python, name)), f"{part}: {name}"
