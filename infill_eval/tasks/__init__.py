"""A task is a plain object that yields requests and scores samples; it never sees a model or a logit."""
