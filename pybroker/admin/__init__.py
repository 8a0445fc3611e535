"""The JSON API of a broker, for tests in any language: `pybroker.admin.listener` (docs/testing.md, docs/design/admin.md).

server      the listener: what each request must have, and the response to it
logins      the users of the page, where clients log in
guards      which requests are refused before anything is done
routes      the list of what can be requested
route       the form of an entry of that list
verbs       what each of these does
body        whether the JSON of a request is what its schema demands
subject     what the verbs work on
steps       work on a broker as steps: requests, and what becomes of their responses
topics, groups, settings, sizes    steps that look into a broker
fetched, records, window           steps that read and write records
topic_changes, group_changes       steps that change topics and groups
inner       requests that come from no client
elsewhere   requests to other brokers
shapes      the forms of what they return
returned    the schemas of these
texts       bytes in JSON
document    the description of the API for OpenAPI
calls       requests, taken apart, and errors
client      the other side: sends a request, and returns the response
"""
