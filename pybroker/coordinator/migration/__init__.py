"""Groups that change from one protocol to the other, consumer by consumer.

    upgrade           a classic group becomes a KIP-848 group
    classic_requests  the requests of members of the classic protocol in a KIP-848 group
    downgrade         a KIP-848 group becomes a classic group again

`group.consumer.migration.policy` decides which of the two changes are allowed.
"""
