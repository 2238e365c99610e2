"""The generalized operator O+ and its specialisations, as kernels generated per shape."""
