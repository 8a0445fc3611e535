"""The optional native extensions; without a compiler the install goes on and the pure Python twins are used."""

from Cython.Build import cythonize
from setuptools import Extension, setup

MODULES = (
    "metrics._native",
    "protocol._native",
    "records._native",
    "records._columns",
    "replication._append",
    "replication._native",
)

setup(
    ext_modules=cythonize(
        [
            Extension(f"pybroker.{name}", [f"pybroker/{name.replace('.', '/')}.pyx"], optional=True, extra_compile_args=["-O3"])
            for name in MODULES
        ],
        language_level=3,
    )
)
