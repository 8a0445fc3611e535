"""The JSON API of a broker, for tests in any language: `pybroker.admin.listener` (docs/testing.md, docs/design/admin.md).

server      the listener: what each request must have, and the response to it
guards      which requests are refused before anything is done
routes      the list of what can be requested
verbs       what each of these does
subject     what the verbs work on
steps       work on a broker as steps: requests, and what becomes of their responses
topics, groups    steps that look into a broker
inner       requests that come from no client
shapes      the forms of what they return
document    the description of the API for OpenAPI
calls       requests, taken apart, and errors
client      the other side: sends a request, and returns the response
"""
