"""The optional native extension; without a compiler the install goes on and the pure Python twins are used."""

from Cython.Build import cythonize
from setuptools import Extension, setup

setup(
    ext_modules=cythonize(
        [Extension("pybroker.records._native", ["pybroker/records/_native.pyx"], optional=True, extra_compile_args=["-O3"])],
        language_level=3,
    )
)
