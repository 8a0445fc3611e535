"""The wire protocol: declarations of messages, and the codec that encodes and decodes them; without any input or output.

messages/             one module per API: declarations only; those of consumers' and coordinators' records too
api_keys, error_codes  the numbers of the APIs and of the errors, and the exception that carries an error code
schema, wire          how a message is declared; the types of its fields
plan                  a message in one version, as a table of steps
codec                 requests and responses with their headers; errors of encoding and decoding
_codec_*              the twins that run the plans: `_python` has the contract, `_native` is compiled where it was built
member_assignment     what a member of a classic group of consumers is assigned
forms                 requests that are like one before, and need no decoding
parts                 the pieces of a response, some of which are made while it is sent
"""
