"""Which model a call uses: the one it was given, else the bundled default, loaded once a process."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anyorder.model.loaded import Model


def resolve_model(model: Model | None) -> Model:
    """The caller's model, or the bundled default.

    Raises:
        TypeError: if it is anything but a loaded model, the name of one included.
    """
    from anyorder.model.hub import load
    from anyorder.model.loaded import Model

    if model is None:
        return load()
    if not isinstance(model, Model):
        hint = f": write model=anyorder.load({model!r})" if isinstance(model, str) else ""
        raise TypeError(f"model must be what anyorder.load returns, got {type(model).__name__}{hint}")
    return model
