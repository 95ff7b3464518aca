"""Training of any-subset autoregressive models; runs from a checkout, never imported by the library."""
