"""The turns of the event loop: how long each held it, and what ran in those that were long.

watch        times turns, native or in Python (_watch_native, _watch_python); marks a callback as a turn
watchdog     judges turns near the bound, keeps what the metrics show, warns in the log
rounds       gives each round of the loop a budget, and measures rounds
warner       warnings in the log, of each name at most one in 10 s
exceptions   the names that may take longer than the bound, each with its reason
jobs         names for what runs within a turn
run_delay    how long the kernel let a thread wait for a core
garbage      keeps garbage collections short
loop         an event loop that marks whatever it calls; the only module here that knows asyncio
"""
