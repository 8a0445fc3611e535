"""The optional native extensions; without a compiler the install goes on and the pure Python twins are used."""

from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

SOURCES = sorted(Path("pybroker").glob("**/*.pyx"))  # from the folder of this file, where a build runs

EXTENSIONS = cythonize(
    [
        Extension(
            ".".join(path.with_suffix("").parts),
            [str(path)],
            depends=[str(header) for header in sorted(path.parent.glob("*.h"))],
            extra_compile_args=["-O3"],
        )
        for path in SOURCES
    ],
    language_level=3,
)
for extension in EXTENSIONS:
    extension.optional = True  # here, as cythonize makes new objects and leaves this out

setup(ext_modules=EXTENSIONS)
