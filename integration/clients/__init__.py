"""Stock clients, old and new, with a broker process, and requests like theirs without them."""
