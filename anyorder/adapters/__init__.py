"""Causal language models that draft for themselves, for comparison: models of transformers run through our own cache.

``causal`` is what the adapters share (the network, its ragged cache, the bookkeeping of a batch), ``mars`` drafts from
appended mask tokens. Nothing here imports transformers until a model is loaded or saved.
"""
