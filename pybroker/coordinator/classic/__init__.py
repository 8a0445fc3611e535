"""Groups of the classic protocol, whose members wait for each other in every rebalance.

group       the state of a group, with the tables of its states and of what each request gets
join        JoinGroup
sync        SyncGroup
membership  Heartbeat and LeaveGroup
rebalance   the steps from one generation to the next, and the timers of members
"""
