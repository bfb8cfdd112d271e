"""The picture of the tooling: drawn from what modules really import, and the rules that its stations keep.

For those who change the tooling (``scripts/architecture``); no command of users needs it.
"""
