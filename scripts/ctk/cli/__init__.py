"""Commands: each reads its options, calls one function of a room below, and shows the result."""
