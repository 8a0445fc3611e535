"""Groups of the consumer protocol (KIP-848), whose members go towards a target assignment, each at its own pace.

    group              the state of a group
    member             the state of a member, with the table of its transitions
    heartbeat          ConsumerGroupHeartbeat, step by step
    heartbeat_request  what every such request must fulfil
    draft              a group as one request changes it: new epoch, new target, and the records that show it
    reconciliation     one step of a member towards its target
    member_timers      the timers of members, and the removal of members
    describe           ConsumerGroupDescribe
    records            the records of these groups, and their replay
    assignors          which member reads which partitions
    patterns/          regular expressions that members subscribe with

The steps at the top of `heartbeat` are the place to begin.
"""
