"""Replacements for calls with two numbers."""

from __future__ import annotations

from collections.abc import Callable

from headrace.codegen.python_numbers.math_functions import checked_gcd, checked_ldexp, checked_math_pow
from headrace.codegen.python_numbers.powers import checked_power
from headrace.codegen.python_numbers.quotients import checked_quotient_and_rest
from headrace.codegen.python_numbers.rounding import checked_round_to

PAIRS: dict[str, Callable] = {
    "pow": checked_power,
    "divmod": checked_quotient_and_rest,
    "math.pow": checked_math_pow,
    "math.ldexp": checked_ldexp,
    "math.gcd": checked_gcd,
    "round": checked_round_to,
}
"""Calls with two numbers -> what is called instead."""

__all__ = ["PAIRS"]
