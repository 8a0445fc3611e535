"""The optional native extensions; without a compiler the install continues and the broker uses the pure Python twins."""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

PACKAGE = Path("pybroker")  # in the folder of this file, where a build runs


def is_stale(source: Path, types: list[Path]) -> bool:
    """Return whether the C text of a Python twin is older than the twin or than types, of which Cython sees no change."""
    text = source.with_suffix(".c")
    return not text.exists() or any(path.stat().st_mtime_ns > text.stat().st_mtime_ns for path in (source, *types))


def extensions(sources: dict[Path, Path], *, is_made_again: bool = False) -> list[Extension]:
    """Return the extension modules, each from one source."""
    modules = [
        Extension(
            ".".join(module.parts),
            [str(source)],
            depends=[str(header) for header in sorted(source.parent.glob("*.h"))],
            # What -O3 adds makes nothing faster, and takes a fifth of the compiler's time. Types beside line numbers, a third.
            extra_compile_args=["-O2", "-g1"],
        )
        for module, source in sorted(sources.items())
    ]
    made = list(cythonize(modules, language_level=3, force=is_made_again))
    for extension in made:
        extension.optional = True  # here, as cythonize makes new objects and leaves this out
    return made


written = {path.with_suffix(""): path for path in PACKAGE.glob("**/*.pyx")}
every_type = sorted(PACKAGE.glob("**/*.pxd"))
# Types without a .pyx beside them are those of a Python twin that is compiled as it stands.
compiled = {
    path.with_suffix(""): path.with_name(path.name.replace("_native.pxd", "_python.py"))
    for path in PACKAGE.glob("**/*_native.pxd")
    if path.with_suffix("") not in written
}
stale = {module: source for module, source in compiled.items() if is_stale(source, every_type)}
settled = {module: source for module, source in compiled.items() if module not in stale}

setup(
    ext_modules=extensions(written) + extensions(stale, is_made_again=True) + extensions(settled),
    options={"build_ext": {"parallel": os.cpu_count()}},
)
