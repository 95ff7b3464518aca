"""The bundled checkpoints, one directory a model, each with its card."""
