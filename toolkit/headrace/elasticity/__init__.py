"""Who owns which keys, and how that changes while the stream runs."""
