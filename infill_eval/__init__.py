"""Evaluate any model that fills blanks, by one command a row, with the protocol named in every row."""
