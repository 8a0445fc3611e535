"""Regular expressions that clients send: those that members subscribe with, and those that transactional ids are listed by.

    matching       matches the topics of an image in slices, once for each image
    topic_pattern  compiles and matches them, in a time that a client cannot choose
    letters        the sets of letters in them
    re2_syntax     translates RE2's syntax to Python's

Only `consumer/draft.py` and `transaction/listing.py` use them.
"""
