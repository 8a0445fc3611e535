"""The handlers, one module per API key, with `handle` in it; ApiVersions announces exactly the APIs that have a module here.

The header of a module shows what the API does, how it behaves, what each version added, what is not done yet, and the source.
`docs/apis.md` is generated from these headers. Code that several handlers share lies in `pybroker/api`, beside this folder.
"""
