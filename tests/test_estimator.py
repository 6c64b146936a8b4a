"""The scikit-learn classifier on molecules and graphs."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from rdkit import Chem
from sklearn.base import clone
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks
from torch_geometric.data import Data

from goodformer import GraphClassifier, GraphRegressor, InputError
from goodformer.data import load_benchmark
from goodformer.estimator import encode_labels
from tests.apply.molecules import molecules

SMALL = {"model.dim": 16, "model.layers": 2, "training.batch_size": 32, "training.learning_rate": 0.005}
pytestmark = pytest.mark.usefixtures("own_cache")
FAST = {"method": "erm", "model": "gin", "settings": SMALL, "epochs": 12, "split": "random"}


@pytest.fixture(scope="module")
def fitted() -> GraphClassifier:
    smiles, labels = molecules()
    return GraphClassifier(**FAST).fit(smiles, np.where(labels, "nitro", "none"))


def test_rdkit_molecules_are_predicted_and_explained_by_their_own_numbers(
    fitted: GraphClassifier, tmp_path: Path
) -> None:
    texts = ["CC[N+](=O)[O-]", "CCCO"]
    turned = [Chem.RenumberAtoms(mol, list(range(mol.GetNumAtoms()))[::-1]) for mol in map(Chem.MolFromSmiles, texts)]
    assert fitted.predict_proba(turned).tolist() == fitted.predict_proba(texts).tolist()
    plain, own = (fitted.explain(given, tmp_path / name) for given, name in ((texts, "texts"), (turned, "molecules")))
    for one, other in zip(plain["graphs"], own["graphs"], strict=True):
        assert other["node_scores"] == one["node_scores"][::-1]
        assert "smiles" not in other  # its text would number the atoms differently


def test_columns_of_pandas_and_arrays_of_objects_are_read_like_lists(fitted: GraphClassifier) -> None:
    smiles, labels = molecules()
    table = pd.DataFrame({"smiles": smiles, "label": labels}, index=range(7, 7 + len(smiles)))
    expected = fitted.predict_proba(smiles[:20])
    some = table.iloc[:20]
    array = np.array(smiles[:20], dtype=object)
    for X in (some["smiles"], some[["smiles"]], some["smiles"].astype("string"), array, array[:, None]):
        assert np.array_equal(fitted.predict_proba(X), expected)
    small = GraphClassifier(**{**FAST, "epochs": 1}).fit(table[["smiles"]], table[["label"]])
    assert list(small.classes_) == [0, 1]
    for X in (some["smiles"], some[["smiles"]], array[:, None], iter(smiles[:20])):
        assert len(fitted.model_.predict(X)) == 20
    with pytest.raises(InputError, match=r"shape \(20, 2\); give the column"):
        fitted.predict(some)
    with pytest.raises(InputError, match="item 1 "):
        fitted.predict(pd.Series(["CCO", np.nan, pd.NA], dtype=object))


def test_it_learns_what_decides_and_names_the_classes_as_given(fitted: GraphClassifier) -> None:
    smiles, labels = molecules()
    assert list(fitted.classes_) == ["nitro", "none"]
    assert fitted.score(smiles, np.where(labels, "nitro", "none")) > 0.9
    shares = fitted.predict_proba(smiles)
    assert shares.shape == (len(smiles), 2)
    assert np.allclose(shares.sum(1), 1)
    assert (fitted.classes_[shares.argmax(1)] == fitted.predict(smiles)).all()


@pytest.mark.parametrize(
    "check",
    [
        estimator_checks.check_do_not_raise_errors_in_init_or_set_params,
        estimator_checks.check_estimator_cloneable,
        estimator_checks.check_estimator_repr,
        estimator_checks.check_estimator_tags_renamed,
        estimator_checks.check_get_params_invariance,
        estimator_checks.check_mixin_order,
        estimator_checks.check_no_attributes_set_in_init,
        estimator_checks.check_parameters_default_constructible,
        estimator_checks.check_set_params,
        estimator_checks.check_valid_tag_types,
    ],
)
def test_scikit_learns_checks_that_need_no_table_of_numbers_pass(check: Callable[[str, GraphClassifier], None]) -> None:
    check("GraphClassifier", GraphClassifier())


def test_members_pass_the_same_checks_and_are_kept(tmp_path: Path) -> None:
    results = estimator_checks.check_estimator(GraphClassifier(members=2), on_skip=None, on_fail=None)
    assert {result["status"] for result in results} <= {"passed", "skipped"}
    smiles, labels = molecules()
    some = GraphClassifier(**{**FAST, "epochs": 1, "members": 2}).fit(smiles, labels)
    assert clone(some).get_params()["members"] == 2
    assert some.model_.members == 2
    shares = some.predict_proba(smiles)
    assert np.allclose(shares.sum(1), 1)
    assert some.spread(smiles).max() > 0
    again = GraphClassifier.load(some.save(tmp_path / "model"))
    assert (again.predict_proba(smiles) == shares).all()
    assert (pickle.loads(pickle.dumps(some)).predict_proba(smiles) == shares).all()


@pytest.mark.parametrize("members", [0, 101, 2.5, "two"])
def test_a_number_of_members_that_cannot_be_is_refused(members: object) -> None:
    with pytest.raises(InputError, match="members"):
        GraphClassifier(**{**FAST, "members": members}).fit(*molecules())


@pytest.mark.parametrize(("method", "found"), [("auto", "auto"), ("forest:shared", "forest")])
def test_a_loaded_estimator_can_be_cloned_and_fitted_again(method: str, found: str, tmp_path: Path) -> None:
    smiles, labels = molecules()
    first = GraphClassifier(method, split="random", random_state=3).fit(smiles, labels)
    again = clone(GraphClassifier.load(first.save(tmp_path / "model"))).set_params(split="random", random_state=3)
    assert again.method == found
    assert (again.fit(smiles, labels).predict_proba(smiles) == first.predict_proba(smiles)).all()


def test_networks_are_a_choice_of_yes_no_or_default() -> None:
    with pytest.raises(InputError, match="networks = 'yes' is not accepted"):
        GraphClassifier(networks="yes").fit(*molecules())


@pytest.mark.parametrize(
    ("values", "words"),
    [([1.5, 1.5], "y has the single value 1.5"), ([[1.0, 2.0], [3.0, 2.0]], "column 1 of y has the single value 2")],
)
def test_values_that_are_all_equal_are_refused(values: list[Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        GraphRegressor("linear").fit(["CC", "CCC"], values)


def test_a_single_graph_is_refused_with_the_advice_to_give_a_list(fitted: GraphClassifier) -> None:
    for apply in (fitted.predict, fitted.predict_proba, fitted.domain_score, fitted.neighbours):
        with pytest.raises(InputError, match="X is a Graph; pass a list"):
            apply(nx.path_graph(3))  # type: ignore[operator]


def test_one_member_has_no_spread(fitted: GraphClassifier) -> None:
    assert (fitted.spread(molecules()[0][:5]) == 0).all()


def test_scikit_learn_has_no_other_check_for_this_input() -> None:
    results = estimator_checks.check_estimator(GraphClassifier(), on_skip=None, on_fail=None)
    assert results
    assert {result["status"] for result in results} <= {"passed", "skipped"}


def test_parameters_are_stored_as_given_and_clones_are_unfitted(fitted: GraphClassifier) -> None:
    twin = clone(fitted)
    assert twin.get_params() == fitted.get_params()
    assert not hasattr(twin, "model_")
    with pytest.raises(Exception, match="not fitted"):
        twin.predict(["CC"])


def test_a_pickled_classifier_says_the_same(fitted: GraphClassifier) -> None:
    smiles = molecules()[0][:20]
    again = pickle.loads(pickle.dumps(fitted))
    assert (again.predict_proba(smiles) == fitted.predict_proba(smiles)).all()


def test_a_saved_classifier_says_the_same(fitted: GraphClassifier, tmp_path: Path) -> None:
    smiles = molecules()[0][:20]
    again = GraphClassifier.load(fitted.save(tmp_path / "model"))
    assert (again.predict_proba(smiles) == fitted.predict_proba(smiles)).all()
    assert (again.predict(smiles) == fitted.predict(smiles)).all()
    assert (again.domain_score(smiles) == fitted.domain_score(smiles)).all()


def test_a_model_is_replaced_only_when_asked(fitted: GraphClassifier, tmp_path: Path) -> None:
    folder, smiles = tmp_path / "model", molecules()[0]
    fitted.save(folder)
    (folder / "card.md").write_text("about the first model")
    (folder / "notes.txt").write_text("mine")
    kept = {path.name: path.read_bytes() for path in folder.iterdir()}
    other = GraphRegressor("linear", split="random").fit(smiles, np.arange(len(smiles)) / 7)
    for one in (fitted, other):
        with pytest.raises(InputError, match="overwrite=True"):
            one.save(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == kept
    again = GraphRegressor.load(other.save(folder, overwrite=True))
    assert (again.predict(smiles[:5]) == other.predict(smiles[:5])).all()
    assert again.neighbours(smiles[:1], 1) == other.neighbours(smiles[:1], 1)
    assert not (folder / "card.md").exists()
    assert (folder / "notes.txt").read_text() == "mine"


def test_a_saved_classifier_returns_classes_of_the_same_type(tmp_path: Path) -> None:
    smiles, labels = molecules()
    given = np.array([3, 7])[labels]
    some = GraphClassifier(**{**FAST, "epochs": 1}).fit(smiles, given)
    again = GraphClassifier.load(some.save(tmp_path / "model"))
    assert again.classes_.tolist() == [3, 7]
    assert again.score(smiles, given) == some.score(smiles, given)


@pytest.mark.parametrize(("names", "kind"), [([3, 7], "i"), ([1.0, 2.0], "f"), ([False, True], "b"), (["a", "b"], "U")])
def test_labels_become_codes_and_their_type_is_kept(names: list, kind: str) -> None:
    labels, found = encode_labels(np.array(names)[[0, 1, 1]], 3)
    assert (labels.y.flatten().tolist(), found) == ([0, 1, 1], kind)
    assert labels.classes == {"label": tuple(map(str, names))}


def test_several_targets_keep_their_own_classes(tmp_path: Path) -> None:
    smiles, labels = molecules()
    words = np.array([["no", "safe"], ["yes", "toxic"]], dtype=object)[labels]
    words[0, 1] = None
    some = GraphClassifier(**{**FAST, "epochs": 1}).fit(smiles, words)
    assert [values.tolist() for values in some.classes_] == [["no", "yes"], ["safe", "toxic"]]
    said, shares = some.predict(smiles), some.predict_proba(smiles)
    assert said.shape == shares.shape == words.shape
    assert ((shares > 0.5) == (said == ["yes", "toxic"])).all()
    again = GraphClassifier.load(some.save(tmp_path / "model"))
    assert (again.predict(smiles) == said).all()
    assert [values.tolist() for values in again.classes_] == [["no", "yes"], ["safe", "toxic"]]


def test_several_targets_of_numbers_keep_missing_labels() -> None:
    labels, kind = encode_labels(np.array([[0, 1], [None, 0]], dtype=object), 2)
    assert (labels.task.outputs, kind) == (2, "i")
    assert labels.y[0].tolist() == [0, 1]
    assert labels.y[1].isnan().tolist() == [True, False]


@pytest.mark.parametrize("share", [0.0, 0.5, -1])
def test_a_share_that_leaves_nothing_is_refused(share: float) -> None:
    with pytest.raises(InputError, match="validation"):
        GraphClassifier(**{**FAST, "validation": share}).fit(*molecules())


def test_the_same_seed_gives_the_same_classifier_and_the_random_state_of_others_is_left_alone() -> None:
    smiles, labels = molecules()
    torch.manual_seed(3)
    before = torch.get_rng_state()
    one, two = (GraphClassifier(**{**FAST, "epochs": 1}).fit(smiles, labels) for _ in range(2))
    assert (one.predict_proba(smiles) == two.predict_proba(smiles)).all()
    assert (torch.get_rng_state() == before).all()


def test_cross_validation_grid_search_and_pipelines_work() -> None:
    smiles, labels = molecules()
    some = GraphClassifier(**{**FAST, "epochs": 1})
    assert len(cross_val_score(some, smiles, labels, cv=2)) == 2
    search = GridSearchCV(some, {"method": ["erm", "gsat"]}, cv=2).fit(smiles, labels)
    assert search.best_params_["method"] in ("erm", "gsat")
    line = make_pipeline(FunctionTransformer(lambda texts: [text.strip() for text in texts]), some)
    assert line.fit([f" {one} " for one in smiles], labels).predict(smiles).shape == (len(smiles),)


@pytest.mark.parametrize("method", ["forest", "linear"])
def test_baselines_are_methods_like_any_other(method: str) -> None:
    smiles, labels = molecules()
    made = GraphClassifier(method, split="random").fit(smiles, labels)
    assert made.score(smiles, labels) > 0.95
    assert len(made.history_) == 1
    unlike = made.domain_score(["[Na+].[Cl-]", "FC(F)(F)C(F)(F)C(F)(F)S(=O)(=O)O", "B1OB(O)OB1C#CC#C"])
    assert unlike.mean() > made.domain_score(smiles[::16]).mean() + 0.2


def test_the_unlike_is_outside_and_the_like_is_not(fitted: GraphClassifier) -> None:
    smiles = molecules()[0]
    assert fitted.outside(smiles).mean() < 0.3
    unlike = ["NCC(=O)" * 30 + "O", "C" * 80, "C" * 200, "c1ccccc1" * 10, "[U](F)(F)(F)(F)(F)F", "BrC(Br)(Br)Br"]
    assert fitted.domain_score(unlike).mean() > fitted.domain_score(smiles).mean() + 0.25
    assert fitted.outside(unlike).any()


def test_graphs_of_three_classes_with_environments_are_learnt() -> None:
    graphs = load_benchmark("good-motif", domain="basis", graphs=300).splits["train"]
    plain = [Data(edge_index=graph.edge_index, num_nodes=graph.num_nodes) for graph in graphs]
    labels, env = graphs.graph["y"].numpy(), graphs.graph["env"].numpy()
    some = GraphClassifier(**{**FAST, "method": "vrex", "epochs": 1, "split": "size"}).fit(plain, labels, env)
    assert some.predict_proba(plain).shape == (len(plain), 3)
    assert set(some.predict(plain)) <= {0, 1, 2}


def test_networkx_graphs_and_several_targets_with_missing_labels_are_learnt() -> None:
    graphs = [nx.cycle_graph(5 + place % 7) if place % 2 else nx.path_graph(5 + place % 7) for place in range(60)]
    labels = np.array([[place % 2, (place % 7) > 3] for place in range(60)], dtype=float)
    labels[::9, 1] = np.nan
    some = GraphClassifier(**{**FAST, "epochs": 40}).fit(graphs, labels)
    assert some.predict(graphs).shape == some.predict_proba(graphs).shape == (60, 2)
    assert ((some.predict(graphs)[:, 0] == labels[:, 0]).mean()) > 0.8


def test_an_environment_that_is_missing_is_refused() -> None:
    smiles, labels = molecules()
    with pytest.raises(InputError, match="None or NaN"):
        GraphClassifier(**FAST).fit(smiles, labels, [None, *([1] * (len(smiles) - 1))])


def test_explanations_are_written(fitted: GraphClassifier, tmp_path: Path) -> None:
    report = fitted.explain(molecules()[0][:3], tmp_path)
    assert len(report["graphs"]) == 3
    assert Path(report["picture"]).is_file()


@pytest.mark.parametrize(
    ("smiles", "labels", "sentence"),
    [
        (["CC", "c1ccc(cc1"], [0, 1], "item 1 of X"),
        (["CC", "CCC"], [0], "y has 1 label for 2 graphs"),
        (["CC", "CCC"], [1, 1], "class"),
        ([3, 4], [0, 1], "SMILES"),
        ("CCO", [0, 1, 0], "X is one text"),
        (nx.path_graph(3), [0, 1, 0], "X is a Graph; pass a list"),
        (None, [0, 1, 0], "X is None; pass a list"),
        (["CC", "CCC"], 1, "y has 1 label for"),
        (["CC", "CCC"], [0.3, 0.7], "continuous"),
        (["CC", "CCC", "CCO"], [0, 1, 0], "3 usable rows"),
        (["CC", "CCC"], ["a", None], "None"),
    ],
)
def test_bad_input_gets_one_sentence(smiles: object, labels: list | int, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        GraphClassifier(**FAST).fit(smiles, labels)


@pytest.mark.parametrize("random_state", [None, np.random.RandomState(3), np.int64(4)])
def test_the_random_state_may_be_what_scikit_learn_accepts(random_state: Any) -> None:
    smiles, labels = molecules()
    model: Any = GraphClassifier("linear", split="random", random_state=random_state).fit(smiles, labels)
    assert clone(model).get_params()["random_state"] is not None or random_state is None
    assert model.score(smiles, labels) > 0.9


def test_what_few_graphs_cannot_determine_is_a_warning() -> None:
    smiles, labels = molecules()
    with pytest.warns(UserWarning, match="fewer than 20"):
        GraphClassifier("linear", split="random", refit=False).fit(smiles[:60], labels[:60])


def test_missing_labels_do_not_count_in_the_score() -> None:
    smiles, labels = molecules()
    one = np.array(labels, dtype=float)
    both = np.stack([one, 1 - one], 1)
    both[::3, 1] = np.nan
    model: Any = GraphClassifier("linear", split="random").fit(smiles, both)
    wrong = both.copy()
    wrong[1::3, 1] = 1 - wrong[1::3, 1]  # half of the known labels of the second target
    found = model.predict(smiles)
    known = ~np.isnan(wrong[:, 1])
    expected = ((found[:, 0] == wrong[:, 0]).mean() + (found[:, 1] == wrong[:, 1])[known].mean()) / 2
    assert model.score(smiles, wrong) == pytest.approx(expected)
    assert 0.6 < expected < 0.9

    values = np.stack([[len(one) for one in smiles], [one.count("C") for one in smiles]], 1).astype(float)
    values[::2, 0] = np.nan
    regressor: Any = GraphRegressor("linear", split="random").fit(smiles, values)
    said = regressor.predict(smiles)
    each = [r2_score(values[1::2, 0], said[1::2, 0]), r2_score(values[:, 1], said[:, 1])]
    assert regressor.score(smiles, values) == pytest.approx(np.mean(each))


def test_a_table_of_labels_keeps_its_names_and_one_type() -> None:
    smiles, labels = molecules()
    words = np.where(np.array(labels) > 0, "yes", "no")
    table = pd.DataFrame({"nitro": words, "plain": words[::-1]})
    model: Any = GraphClassifier("linear", split="random").fit(smiles, table)
    assert list(model.model_.classes) == ["nitro", "plain"]
    assert model.score(smiles, table) > 0.6
    with pytest.raises(InputError, match="write all of them as words"):
        GraphClassifier("linear").fit(smiles, pd.DataFrame({"nitro": words, "long": [len(one) > 20 for one in smiles]}))
