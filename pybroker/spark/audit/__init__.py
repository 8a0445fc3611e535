"""The audit trail: producers tag and count their records, and a job compares, by sequence numbers, what each tier has.

tagging, trail, tags    the producers' side: tags on records, and the published counts
job                     one pass over everything, or over a part of the time
incremental, state      pass after pass, each of which reads only what is new
passes                  what both kinds of passes have in common
sources                 the tiers and their records
counting, compare       count the records of a tier, and compare the tiers
folder, summary, report  the result: its folder, its totals, its page with pictures
options                 what to audit
"""
