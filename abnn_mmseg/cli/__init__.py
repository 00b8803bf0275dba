"""The ``abnn`` command: one module a subcommand.

A module has a docstring, ``add_arguments(parser)`` and ``run(args)``, which
may return an exit code.
"""
