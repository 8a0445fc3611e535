"""Groups of the classic protocol, whose members wait for each other in every rebalance.

    group      the state of a group, with the tables of its states and of what each request gets
    requests   the four requests of members, as the service calls them
    join       JoinGroup
    sync       SyncGroup
    heartbeat  Heartbeat
    leave      LeaveGroup
    rebalance  the steps from one generation to the next, and the timers of members
    describe   DescribeGroups

The tables at the top of `group` are the place to begin.
"""
