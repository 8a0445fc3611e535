"""The optional native extensions; without a compiler the install goes on and the pure Python twins are used."""

from Cython.Build import cythonize
from setuptools import Extension, setup

PACKAGES = ("protocol", "records")

setup(
    ext_modules=cythonize(
        [
            Extension(f"pybroker.{name}._native", [f"pybroker/{name}/_native.pyx"], optional=True, extra_compile_args=["-O3"])
            for name in PACKAGES
        ],
        language_level=3,
    )
)
