"""The ways of a Produce, which the handler chooses from, and its response.

operation            the general way: appends in slices, and the wait until they are replicated and durable
layout, response, makers    the partitions of a request, and the response with their results
appends              the appends of one request, partition after partition
transactional_append    which batches of transactions may be appended
one_partition, _one_partition_*     the usual request, which has one partition: one text for both builds
repeats, _repeats_*  what is kept of a request, so that those like it need no decoding; one text for both builds
"""
