"""Errors that a user can act on: one clear line each, and the exit code that goes with it."""

from __future__ import annotations


class OnnxReduceError(Exception):
    """Base of all errors shown to the user as one line, without a traceback."""

    exit_code = 2


class BadInputError(OnnxReduceError):
    """The model, its inputs, the oracle or the options are at fault (exit code 2)."""

    exit_code = 2


class SetupError(OnnxReduceError):
    """Something outside the model is missing or broken: browser, adapter, npm, package, provider (exit code 3)."""

    exit_code = 3
