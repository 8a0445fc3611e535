"""The request handlers: one module per API key, and the dispatch around them."""
