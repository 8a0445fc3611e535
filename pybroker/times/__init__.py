"""The time of a broker: that of the machine, or one that a test moves.

times           the clocks and timers of the parts of a broker
lanes           time that a test moves, part by part
stored          that time over several lives of a process
virtual_times   the clocks and timers on it
held            requests that wait while time passes
clock           the time of a broker, as a test sees and moves it
"""
