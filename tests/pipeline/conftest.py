"""No deadline for a single example: time on a busy machine is no property of what is tested."""

from hypothesis import settings

settings.register_profile("pipeline", deadline=None)
settings.load_profile("pipeline")
