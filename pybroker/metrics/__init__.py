"""Counters as plain integers, and their Prometheus form.

broker_metrics    all numbers of one broker, and the callbacks that read those of other objects
request_metrics   the counters and times of each API
histogram         durations, counted per power of two
counts            the counts behind a histogram, native or in Python (_counts_native, _counts_python)
exporter          the numbers in Prometheus' form
group_families    those of groups
pages             makes pages of them in a thread, one at a time, and leaves the interpreter to the loop in between
http_server       serves the page, and whether the broker is alive and ready
"""
