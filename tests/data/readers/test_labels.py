"""Labels from columns of text."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from goodformer.data.readers.labels import TaskChoice, labelled, placeholders, read_known, read_labels
from goodformer.errors import InputError
from goodformer.spec import Task


def codes(y: torch.Tensor) -> list[float | None]:
    """Labels of one column, None where missing."""
    return [None if math.isnan(value) or value < 0 else value for value in y.flatten().tolist()]


@pytest.mark.parametrize(
    ("column", "expected", "classes"),
    [
        (["0", "1", "1"], [0, 1, 1], ("0", "1")),
        (["1.0", "0", "0.0"], [1, 0, 0], ("0", "1")),
        (["True", "False", "False"], [1, 0, 0], ("False", "True")),
        (["yes", "no", "no"], [1, 0, 0], ("no", "yes")),
        (["Inactive", "Active", "Active"], [0, 1, 1], ("Inactive", "Active")),
        (["1", "-1", "-1"], [1, 0, 0], ("-1", "1")),
        (["toxic", "safe", "safe"], [1, 0, 0], ("safe", "toxic")),
        (["2", "10", "10"], [0, 1, 1], ("2", "10")),
        (["high", "low"], [1, 0], ("low", "high")),
        (["+", "-"], [1, 0], ("-", "+")),
        (["Pos", "Neg"], [1, 0], ("Neg", "Pos")),
        (["t", "f"], [1, 0], ("f", "t")),
        (["hit", "miss"], [1, 0], ("miss", "hit")),
        (["non-toxic", "toxic"], [0, 1], ("non-toxic", "toxic")),
        (["binder", "Nonbinder"], [1, 0], ("Nonbinder", "binder")),
        (["not mutagenic", "mutagenic"], [0, 1], ("not mutagenic", "mutagenic")),
        (["soluble", "insoluble"], [1, 0], ("insoluble", "soluble")),
        (["active", "decoy"], [1, 0], ("decoy", "active")),
        (["Yes", "yes", "no", "YES ", "yes", "NO", "no"], [1, 1, 0, 1, 1, 0, 0], ("no", "yes")),
        ([" 1 ", None, "0", "", "nan", "NaN"], [1, None, 0, None, None, None], ("0", "1")),
        (["a", "b", "NA", "n/a", "#N/A", "NULL", "None", " Missing ", "?"], [0, 1, *[None] * 7], ("a", "b")),
    ],
)
def test_two_values_are_a_binary_target(
    column: list[str | None], expected: list[float | None], classes: tuple[str, ...]
) -> None:
    labels = read_labels({"active": column})
    assert labels.task == Task("binary", 1, "rocauc")
    assert labels.y.shape == (len(column), 1)
    assert labels.y.dtype == torch.float
    assert codes(labels.y) == expected
    assert labels.classes == {"active": classes}
    assert labelled(labels.y).tolist() == [value is not None for value in expected]


def test_spellings_that_are_one_class_are_told() -> None:
    labels = read_labels({"a": ["Yes", "yes", "no", "yes"], "b": ["1", "0", "0", "1"]})
    (note,) = labels.notes
    assert all(fact in note for fact in ("'a'", "Yes", "yes"))
    assert labels.classes == {"a": ("no", "yes"), "b": ("0", "1")}
    several = read_labels({"kind": ["A", "a", "b", "c", "a"]})
    assert (several.y.tolist(), several.classes["kind"]) == ([0, 0, 1, 2, 0], ("a", "b", "c"))
    assert several.notes
    assert not read_labels({"a": ["yes", "no"]}).notes


def test_values_that_are_no_text_are_labels_too() -> None:
    assert codes(read_labels({"a": [1, 0.0, None, math.nan, 1.0]}).y) == [1, 0, None, None, 1]
    assert read_labels({"a": [True, False]}).classes["a"] == ("false", "true")
    assert read_labels({"a": [3, 2.5, 10]}, "classification").classes["a"] == ("2.5", "3", "10")


def test_more_values_are_classes_in_order() -> None:
    labels = read_labels({"kind": ["10", "9", None, "2", "9.0"]})
    assert labels.classes["kind"] == ("2", "9", "10")
    assert labels.task == Task("multiclass", 3, "accuracy")
    assert labels.y.tolist() == [2, 1, -1, 0, 1]
    assert labelled(labels.y).tolist() == [True, True, False, True, True]
    assert read_labels({"kind": ["b", "c", "a"]}).classes["kind"] == ("a", "b", "c")
    assert read_labels({"kind": ["none", "mild", "severe"]}).classes["kind"] == ("mild", "none", "severe")


def test_several_columns_are_several_binary_targets() -> None:
    labels = read_labels({"a": ["0", "1", None], "b": [None, "1", "0"], "c": ["1", "0", ""]})
    assert labels.task == Task("binary", 3, "rocauc")
    assert [codes(row) for row in labels.y] == [[0, None, 1], [1, 1, 0], [None, 0, None]]
    assert labels.classes == dict.fromkeys("abc", ("0", "1"))
    assert labels.targets == ("a", "b", "c")


def test_each_target_keeps_the_names_of_its_own_classes() -> None:
    labels = read_labels({"a": ["active", "inactive", "active"], "b": ["toxic", None, "safe"], "c": ["1", "0", "0"]})
    assert labels.classes == {"a": ("inactive", "active"), "b": ("safe", "toxic"), "c": ("0", "1")}
    assert [codes(row) for row in labels.y] == [[1, 1, 1], [0, None, 0], [1, 0, 0]]


def test_a_row_without_any_label_is_not_labelled() -> None:
    assert labelled(read_labels({"a": ["0", "1", None], "b": ["0", "1", ""]}).y).tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({}, "no target column"),
        ({"y": ["1", "1", None]}, "target column 'y' .* only the value '1'"),
        ({"y": [None, ""]}, "no value"),
        ({"y": ["0", "1"], "z": ["0", "1", "2"]}, "'z' .* 3 different values"),
        ({"y": [f"molecule {n}" for n in range(60)]}, "or names"),
    ],
)
def test_what_is_no_label_is_refused_in_one_sentence(columns: dict[str, list[str | None]], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_labels(columns)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (["-3.2", "0.5", "1e-3", None], "regression"),
        ([str(n) for n in range(21)], "regression"),
        ([str(n % 20) for n in range(400)], "multiclass"),
        (["0.5", "1.5", "0.5"], "binary"),
        (["low", "high", "2.5"], "multiclass"),
        ([f"class {n % 60}" for n in range(600)], "multiclass"),
    ],
)
def test_values_decide_whether_a_column_is_measured(column: list[str | None], kind: str) -> None:
    labels = read_labels({"y": column})
    assert labels.task.kind == kind
    assert len(labels.notes) == (kind != "binary"), "the decision is told"


def test_measured_values_keep_their_numbers_and_gaps() -> None:
    labels = read_labels({"a": ["-3.25", None, "1e2", "", 0.5], "b": [2, 7, "?", None, 4]})
    assert labels.task == Task("regression", 2, "rmse")
    expected = [[-3.25, 2], [math.nan, 7], [100, math.nan], [math.nan, math.nan], [0.5, 4]]
    assert torch.equal(labels.y.nan_to_num(-1e9), torch.tensor(expected).nan_to_num(-1e9))
    assert labels.classes == {"a": (), "b": ()}
    assert labelled(labels.y).tolist() == [True, True, True, False, True]


def test_the_task_can_be_given() -> None:
    whole = [str(n % 5) for n in range(20)]
    given = read_labels({"y": whole}, "regression")
    assert (given.task.kind, given.notes) == ("regression", ())
    with pytest.raises(InputError, match="60 different values"):
        read_labels({"y": [str(0.5 + n % 60) for n in range(600)]}, "classification")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"y": [*(f"{n / 7:.3f}" for n in range(60)), ">10", ">10"]}, "'y' contains 2 values .* '>10'"),
        ({"y": ["0.5", "1.5", "2.5"], "z": ["yes", "no", "yes"]}, "'y' contains measured values, but 'z'"),
        ({"y": ["1.5", "1.5", "1.5"]}, "only the value"),
        ({"y": ["1e40", "2.5", "3.5"]}, "cannot be used"),
    ],
)
def test_values_that_cannot_be_measured_are_refused(columns: dict[str, list[str | None]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_labels(columns)


def test_strata_of_measured_values_are_halves() -> None:
    labels = read_labels({"y": ["0.5", "1.5", None, "2.5", "9.5"]})
    assert codes(labels.strata) == [0, 0, None, 1, 1]


def test_many_classes_that_come_back_are_accepted() -> None:
    assert read_labels({"y": [f"class {n % 60}" for n in range(600)]}).task.outputs == 60


@given(st.lists(st.one_of(st.none(), st.sampled_from("abcd")), min_size=1, max_size=30))
def test_classes_name_what_was_written(column: list[str | None]) -> None:
    if len(set(column) - {None}) < 2:
        with pytest.raises(InputError):
            read_labels({"y": column})
        return
    labels = read_labels({"y": column})
    assert [None if code is None else labels.classes["y"][int(code)] for code in codes(labels.y)] == column


def test_decimal_commas_are_read_as_points_unless_they_may_separate_thousands() -> None:
    labels = read_labels({"y": ["5,1", "6,25", "7", None, "-0,5"]})
    assert labels.y[:, 0].tolist() == pytest.approx([5.1, 6.25, 7.0, float("nan"), -0.5], nan_ok=True)
    assert any("comma" in note for note in labels.notes)
    assert read_labels({"y": ["1,5", "2,5", "1,5"]}).classes["y"] == ("1,5", "2,5")  # two values are classes
    thousands = [f"{number},000" for number in range(1, 60)]
    with pytest.raises(InputError, match=r"59 .*'1,000'"):
        read_labels({"y": thousands})


@pytest.mark.parametrize("task", ["auto", "regression"])
def test_entries_that_are_no_numbers_are_named_beside_decimal_commas(task: TaskChoice) -> None:
    numbers: list[str | None] = [f"{number // 10},{number % 10}" for number in range(30, 70)]
    with pytest.raises(InputError, match=r"2 values .*'>10'"):
        read_labels({"y": [*numbers[:5], ">10", "n,d", *numbers[5:]]}, task)
    assert read_labels({"y": [*numbers, "n/a"]}, task).task.kind == "regression"


def test_many_entries_that_are_no_numbers_and_mixed_commas_are_named_as_such() -> None:
    numbers = [f"{number / 10:.1f}" for number in range(31, 60)]
    limits = [f">{number}" for number in range(12)]
    with pytest.raises(InputError, match=r"12 values .*'>0'"):
        read_labels({"y": [*numbers, *limits]})
    with pytest.raises(InputError, match=r"9 numbers .* comma.*'0,5'"):
        read_labels({"y": [*numbers, *(f"{number},5" for number in range(9))]})


def test_labels_of_further_rows_match_classes_however_a_number_is_written() -> None:
    known = read_known(
        {"y": ["1", "0.0", None, "yes"], "z": ["No", "yes", "no", None]},
        {"y": ("0.0", "1.0", "yes"), "z": ("no", "yes")},
    )
    assert codes(known[:, 0]) == [1, 0, None, 2]
    assert codes(known[:, 1]) == [0, 1, 0, None]
    with pytest.raises(InputError, match="'2'"):
        read_known({"y": ["2"]}, {"y": ("0.0", "1.0")})


def test_values_over_many_orders_of_magnitude_are_pointed_out() -> None:
    wide = read_labels({"y": ["0.5", "7000", "300", "12"]})
    assert any("4 orders of magnitude" in note for note in wide.notes)
    assert not any("magnitude" in note for note in read_labels({"y": ["0.5", "1.5", "300"]}).notes)
    assert not any("magnitude" in note for note in read_labels({"y": ["-0.5", "0.5", "70000"]}).notes)


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ([-999.0, -999.0], [-999.0]),
        ([9999.0, 9999.0, 9999.0], [9999.0]),
        ([-999.0, -999.0, 9999.0, 9999.0], [-999.0, 9999.0]),
        ([-999.0], []),  # once: an outlier
        ([4.0, 4.0], []),
    ],
)
def test_placeholders_for_missing_values_are_pointed_out(more: list[float], found: list[float]) -> None:
    values = [5.0, 6.5, 7.0, 5.5, 8.25, 6.0, 7.5, *more]
    assert placeholders(values) == found
    notes = read_labels({"y": [repr(value) for value in values]}, "regression").notes
    assert [f"{one:g}" for one in found] == [one for one in ("-999", "9999") if any(one in note for note in notes)]
    assert placeholders([0.0, 0.0, 5.0, 5.1]) == []  # too few others
