"""Columns as NumPy sees them: the parts of lists, whatever their layout and their elements' coding.

Oracle      Arrow's own Python values.
Cannot see  what is done with them: `test_encode`, `test_types`.
"""

import numpy as np
import pyarrow as pa
import pytest

from headrace.ingress.columns import list_parts

VALUES = pa.DictionaryArray.from_arrays(
    pa.array([0, 1, None, 2, 1, 0, 2, 2], pa.int8()), pa.array(np.array([1.5, -2.0, np.nan], np.float16))
)
"""Halves behind a dictionary with a NaN, which Arrow takes for another one than itself: bringing the two together makes
integers of them."""

NULL_INSIDE = pa.DictionaryArray.from_arrays(
    pa.array([0, 1, 2, 1, 0, 2, 2, 0], pa.int16()), pa.array([1.0, None, np.nan], from_pandas=False)
)
"""A dictionary with a null, of which Arrow cannot bring two together."""

MASK = pa.array([False, True, False, False])


def lists(values):
    """Four lists in each layout, with and without a null one that spans elements."""
    offsets = pa.array([0, 2, 4, 4, 8], pa.int32())
    yield pa.ListArray.from_arrays(offsets, values)
    yield pa.ListArray.from_arrays(offsets, values, mask=MASK)
    yield pa.LargeListArray.from_arrays(offsets.cast(pa.int64()), values, mask=MASK)
    yield pa.FixedSizeListArray.from_arrays(values, 2)
    yield pa.FixedSizeListArray.from_arrays(values, 2, mask=MASK)
    starts, sizes = pa.array([6, 0, 2, 1], pa.int32()), pa.array([2, 3, 0, 2], pa.int32())
    yield pa.ListViewArray.from_arrays(starts, sizes, values, mask=MASK)


@pytest.mark.parametrize("values", [VALUES, NULL_INSIDE, VALUES.dictionary_decode()], ids=["halves", "null", "plain"])
def test_oracle_the_elements_of_every_layout(values):
    for whole in lists(values):
        for array in (whole, whole.slice(1), whole.slice(2, 1), whole.slice(0, 0)):
            elements, offsets = list_parts(array)
            expected = [one or [] for one in array.to_pylist()]
            assert repr(elements.to_pylist()) == repr([element for one in expected for element in one]), array.type
            assert offsets.tolist() == [0, *np.cumsum([len(one) for one in expected])]


def test_example_a_list_without_nulls_is_not_copied():
    array = pa.ListArray.from_arrays(pa.array([0, 2, 8], pa.int32()), VALUES.indices)
    elements, _ = list_parts(array)
    assert elements.buffers()[1].address == VALUES.indices.buffers()[1].address
