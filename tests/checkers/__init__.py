"""Checkers of the guarantees: pure functions from a history to holds, fails, or cannot tell.

They judge what came out (topics) by what was so (the world's own history), and import no decision of ours. `local` has
those of G1 to G3, which the product itself uses; they are reused here for every epoch and stream.
"""
