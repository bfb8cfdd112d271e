"""Other people's recipes: built and tested against the channel, and where they install."""
