"""The parts of the build station: what a finished build is, how one is made, in which order, and where.

`schedule` knows what is ready; an executor (`local` or `cluster`) makes it.
"""
