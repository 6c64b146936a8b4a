import numpy as np

from goodformer.data.bounds import bounds


def test_bounds_cut_a_flat_array_into_its_parts() -> None:
    counts = np.array([2, 0, 3], dtype=np.int8)
    ends = bounds(counts)
    assert (ends.tolist(), ends.dtype) == ([0, 2, 2, 5], np.int64)
    assert [len(part) for part in np.split(np.arange(5), ends[1:-1])] == counts.tolist()
    assert bounds(np.array([], dtype=np.int64)).tolist() == [0]
