"""How a page is lost. Its browser is killed in both cases."""

from __future__ import annotations


class TabDeadError(Exception):
    """The page, its renderer or the browser went away."""


class TabHungError(Exception):
    """The page gave no answer in time."""
