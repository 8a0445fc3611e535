"""No deadline for a single example: the pure twins are slow on a busy machine, and time is no property of what is tested."""

from hypothesis import settings

settings.register_profile("records", deadline=None)
settings.load_profile("records")
