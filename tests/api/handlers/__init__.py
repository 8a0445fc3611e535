"""Tests of the handlers, each in a file of its handler's name."""
