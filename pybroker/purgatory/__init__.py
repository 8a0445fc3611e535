"""Operations that wait for an event or a time, on a hierarchical timing wheel; no input or output, no event loop.

purgatory       an operation that waits, and the purgatory that keeps operations by the keys whose events may complete them
timer           the times at which operations expire, driven by one wake-up of the event loop
timing_wheel    starts and stops a timer at O(1)
"""
