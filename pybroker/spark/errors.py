"""The error of the jobs, whose message is for people."""

from __future__ import annotations


class PipelineError(Exception):
    """A job cannot start or continue. The message is one clear line. The job can run again once the reason is gone."""
