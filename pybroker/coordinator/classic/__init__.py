"""Serves the requests of members to groups of the classic protocol, whose members wait for each other in every rebalance.

    requests   the four requests of members, as the service calls them
    join       JoinGroup
    sync       SyncGroup
    heartbeat  Heartbeat
    leave      LeaveGroup
    rebalance  the steps from one generation to the next, and the timers of members
    describe   DescribeGroups

The tables at the top of `state/classic_group.py` are the place to begin.
"""
