"""``python -m infill_eval compare``: any-subset models beside left-to-right ones, on the same pieces of held-out text.

``models`` opens and refuses, ``pieces`` cuts texts, ``methods`` decode, ``judging`` says what a text is worth,
``measuring`` runs all of it in turn, ``results`` and ``pictures`` show it.
"""
