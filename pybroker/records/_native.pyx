# cython: boundscheck=False, wraparound=False
"""Typed twins of the hot functions of this package."""
