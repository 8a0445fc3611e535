"""Groups of the consumer protocol (KIP-848), whose members go towards a target assignment, each at its own pace.

group              the state of a group and of its members, with the tables of both
heartbeat          ConsumerGroupHeartbeat, step by step
heartbeat_request  what every such request must fulfil
draft              a group as it is changed by one request: new epoch, new target, and the records that say so
reconciliation     one step of a member towards its target
member_timers      the timers of members, and the removal of members
describe           ConsumerGroupDescribe
records            the records of these groups, and their replay
assignors          which member shall read which partitions
patterns/          regular expressions that members subscribe with
"""
