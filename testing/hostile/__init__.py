"""Hostile clients of a listener with logins and of one with TLS, and the checks that they neither harm nor learn anything.

victims   sends bad frames over many connections at once, and watches what becomes of them
states    what a hostile client sends in each state of a connection
target    the broker that is attacked: its secrets, what must not change, and an honest client beside
cores     how long the broker was on a core
campaign  an attack in one state, judged
"""
