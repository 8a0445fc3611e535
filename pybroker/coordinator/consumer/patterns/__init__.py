"""Regular expressions that members subscribe with.

    topic_pattern  compiles and matches them, in a time that a client cannot choose
    re2_syntax     translates RE2's syntax to Python's

Only `consumer/draft.py` uses them.
"""
