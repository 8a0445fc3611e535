"""Serves requests to groups of the consumer protocol (KIP-848), whose members go towards a target at their own pace.

    heartbeat          ConsumerGroupHeartbeat, step by step
    heartbeat_request  what every such request must fulfil
    draft              a group as one request changes it: new epoch, new target, and the records that show it
    reconciliation     one step of a member towards its target
    member_timers      the timers of members, and the removal of members
    describe           ConsumerGroupDescribe
    assignors          which member reads which partitions
    patterns/          regular expressions that members subscribe with
    upgrade            a classic group becomes one of KIP-848
    downgrade          a group of KIP-848 becomes a classic one
    classic_requests   JoinGroup, SyncGroup, Heartbeat and LeaveGroup of members that speak the classic protocol

The steps at the top of `heartbeat` are the place to begin.
"""
