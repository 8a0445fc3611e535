"""Kafka's command line tools, the verbs that compose files, init containers, health checks and READMEs use.

Health checks start one of these every few seconds, so what they start imports little: no `typing`, no `dataclasses`, no codec
before it is needed. `docs/design/commands.md` says what is imported when, and what it costs.
"""
