"""Causal language models that draft for themselves, for comparison: models of transformers run through our own cache.

``causal`` is what the adapters share (the network, its ragged cache, the bookkeeping of a batch, the lossless loop),
``mars`` drafts from appended mask tokens, ``orthrus`` from masks that go through a small view of their own. Nothing
here imports transformers until a model is loaded or saved.
"""
