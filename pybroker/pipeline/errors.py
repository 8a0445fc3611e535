"""What a job cannot do, said to a person."""

from __future__ import annotations


class PipelineError(Exception):
    """A job cannot start or go on. The message is one clear line; the job can be run again once the reason is gone."""
