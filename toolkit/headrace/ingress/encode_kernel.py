"""Kernels of the encoder: products of key sets."""

from __future__ import annotations

from headrace.kernel import kernel


@kernel
def count_products(left_offsets, right_offsets, offsets):
    """Write the offsets of the products of each row's two sets; returns how many there are."""
    total = 0
    offsets[0] = 0
    for i in range(left_offsets.size - 1):
        total += (left_offsets[i + 1] - left_offsets[i]) * (right_offsets[i + 1] - right_offsets[i])
        offsets[i + 1] = total
    return total


@kernel
def fill_products(left, left_offsets, right, right_offsets, products):
    """Write every pair of a left and a right part of each row, left parts first."""
    count = 0
    left_width = left.shape[1]
    for row in range(left_offsets.size - 1):
        for i in range(left_offsets[row], left_offsets[row + 1]):
            for j in range(right_offsets[row], right_offsets[row + 1]):
                for k in range(left_width):
                    products[count, k] = left[i, k]
                for k in range(right.shape[1]):
                    products[count, left_width + k] = right[j, k]
                count += 1
