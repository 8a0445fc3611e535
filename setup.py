"""The optional native extensions; without a compiler the install continues and the broker uses the pure Python twins."""

from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

PACKAGE = Path("pybroker")  # in the folder of this file, where a build runs


def extensions(sources: dict[Path, Path], *, is_made_again: bool = False) -> list[Extension]:
    """Return the extension modules, each from one source."""
    modules = [
        Extension(
            ".".join(module.parts),
            [str(source)],
            depends=[str(header) for header in sorted(source.parent.glob("*.h"))],
            extra_compile_args=["-O3"],
        )
        for module, source in sorted(sources.items())
    ]
    made = list(cythonize(modules, language_level=3, force=is_made_again))
    for extension in made:
        extension.optional = True  # here, as cythonize makes new objects and leaves this out
    return made


written = {path.with_suffix(""): path for path in PACKAGE.glob("**/*.pyx")}
# Types without a .pyx beside them are those of a Python twin that is compiled as it stands. Cython does not see that they change.
compiled = {
    path.with_suffix(""): path.with_name(path.name.replace("_native.pxd", "_python.py"))
    for path in PACKAGE.glob("**/*_native.pxd")
    if path.with_suffix("") not in written
}

setup(ext_modules=extensions(written) + extensions(compiled, is_made_again=True))
