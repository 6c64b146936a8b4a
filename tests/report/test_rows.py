"""The rows of a comparison and the paper's figures for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from goodformer.config.presets import configure, presets
from goodformer.errors import InputError
from goodformer.methods import METHODS
from goodformer.models import MODELS
from goodformer.report.paper import leaderboard, published, read_numbers
from goodformer.report.rows import ALL, PAPER, row, rows

BASIS = {"name": "good-motif", "domain": "basis"}
SIZE = {"name": "good-motif", "domain": "size"}
SPURIOUS = {"name": "sp-motif", "bias": 0.9}
NAMES = [
    *("erm", "irm", "vrex"),
    *("dir", "grea", "gil", "gsat", "ciga", "imold", "cal-plus"),
    *("graphormer", "gps", "exphormer"),
    "goodformer",
]
CHANGES = [
    *("without-entropy", "gil-generator", "without-encoder", "laplacian-input", "signnet-input", "mlp-predictor"),
]


def names(words: str, dataset: str = "good-motif") -> list[str]:
    return [one.name for one in rows(words, dataset)]


def test_the_rows_of_the_paper_in_its_order() -> None:
    assert [row.name for row in PAPER] == NAMES
    assert names("goodformer,erm , gsat,erm") == ["erm", "gsat", "goodformer"]


@pytest.fixture
def mine() -> Iterator[None]:
    """A method and a model that are registered and in no table of the paper."""
    METHODS.add("mine", "goodformer.methods.erm:ERM")
    MODELS.add("net", "goodformer.models.gin:GIN")
    yield
    METHODS.remove("mine")
    MODELS.remove("net")


@pytest.mark.usefixtures("mine")
def test_whatever_is_registered_is_a_row() -> None:
    assert names("mine,erm,net") == ["erm", "mine", "erm on net"]
    assert names("mine on gin,mine on gps") == ["mine", "mine on gps"]
    assert row("mine on gps", "good-motif").title == "mine on GraphGPS"
    assert row("mine", "good-hiv").configure({"name": "good-hiv"}).model["name"] == "gin-vn"
    assert names("mine alike:default") == ["mine alike"]
    assert names(ALL) == NAMES
    with pytest.raises(InputError, match="mine"):
        names("minne")


@pytest.mark.parametrize("dataset", [BASIS, SIZE, SPURIOUS], ids=str)
def test_all_rows_have_one_budget(dataset: dict[str, Any]) -> None:
    configs = [one.configure(dataset, "compare") for one in rows(ALL, dataset["name"])]
    assert {config.training.epochs for config in configs} == {4}
    assert {config.training.selection for config in configs} == {"ood_val"}
    assert len({str(config.dataset) for config in configs}) == 1
    assert len({config.id for config in configs}) == len(configs)


def test_gnns_have_a_virtual_node_where_the_benchmark_has() -> None:
    one = row("irm", "good-motif")
    assert (one.model_on("good-motif"), one.model_on("sp-motif"), one.model_on("good-hiv")) == ("gin", "gin", "gin-vn")
    assert {row("ciga", name).model_on(name) for name in ("good-hiv", "good-sst2", "good-twitter", "drugood")} == {
        "gin"
    }
    assert [row("imold", "drugood").model_on(name) for name in ("good-hiv", "drugood")] == ["gin-vn", "gin"]
    assert row("ciga on gin", "good-hiv").name == "ciga"
    assert row("ciga on gin-vn", "good-hiv").name == "ciga on gin-vn"


def test_any_pair_is_a_row() -> None:
    one = row("vrex on goodformer", "good-motif")
    assert (one.title, one.method, one.model) == ("VREx on GOODFormer", "vrex", "goodformer")
    assert published("ood_test", configure(BASIS).dataset, one.published) is None
    assert row("erm on gin", "good-motif").name == "erm"
    assert row("erm on gin-vn", "good-motif").name == "erm on gin-vn"
    assert names("erm on goodformer,all")[-1] == "erm on goodformer"


def test_a_row_under_another_preset() -> None:
    one = row("goodformer:paper", "good-motif")
    assert one.configure(BASIS).id == configure(BASIS, preset="paper").id
    assert published("ood_test", configure(BASIS).dataset, one.published) == (81.97, 16.74)
    assert names("goodformer:default,goodformer:paper") == ["goodformer:paper", "goodformer"]
    assert names("gsat:as_published,gsat") == ["gsat", "gsat:as_published"]


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("goodformer", "GOODFormer (ours)"),
        ("goodformer:paper", "GOODFormer (paper)"),
        ("goodformer:as_published", "GOODFormer (published code)"),
        ("goodformer:laplacian-input", "GOODFormer (paper), laplacian input"),
        ("goodformer:default-without-walks", "GOODFormer (ours), without walks"),
        ("erm on goodformer alike", "ERM on GOODFormer, same inputs"),
        ("gsat alike", "GSAT, same inputs"),
    ],
)
def test_titles_say_whose_goodformer_it_is(name: str, title: str) -> None:
    assert row(name, "good-motif").title == title


def test_the_papers_number_is_never_beside_ours() -> None:
    for metric in ("ood_test", "precision_at_10"):
        for dataset in (BASIS, SIZE, SPURIOUS):
            settings = configure(dataset).dataset
            for name in ("goodformer", "goodformer:as_published", "goodformer:default-without-encoder"):
                assert published(metric, settings, row(name, dataset["name"]).published) is None


def test_graphgps_with_goodformer_s_inputs() -> None:
    config = row("gps-inputs", "good-motif").configure(BASIS)
    assert config.model["inputs"] == configure(BASIS).model["inputs"] != configure(BASIS, "erm", "gps").model["inputs"]
    assert (config.model["name"], config.method["name"]) == ("gps", "erm")


ALIKE = ["erm alike", "gsat alike", "ciga alike", "imold alike", "gps alike", "erm on goodformer alike"]


@pytest.mark.parametrize("name", ALIKE)
def test_a_row_alike_has_what_goodformer_has_beside_its_method(name: str) -> None:
    ours, plain = configure(BASIS), row(name.removesuffix(" alike"), "good-motif").configure(BASIS)
    alike = row(name, "good-motif").configure(BASIS)
    for setting in ("inputs", "aggregation"):
        assert alike.model[setting] == ours.model[setting]
    assert alike.training.average == "ema"
    assert alike.training.average_decay == ours.training.average_decay
    kept = {"inputs", "aggregation"}
    assert {k: v for k, v in alike.model.items() if k not in kept} == {
        k: v for k, v in plain.model.items() if k not in kept
    }
    assert alike.method == plain.method
    assert alike.training.learning_rate == plain.training.learning_rate
    assert published("ood_test", alike.dataset, row(name, "good-motif").published) is None


def test_what_a_model_does_not_have_is_not_given_to_it() -> None:
    """Graphormer has no messages to aggregate."""
    config = row("graphormer alike", "good-motif").configure(BASIS)
    assert config.model["inputs"] == configure(BASIS).model["inputs"]
    assert row("gsat alike:as_published", "good-motif").name == "gsat alike:as_published"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (" , ", "no row was named"),
        ("gsatt", "did you mean gsat"),
        ("erm on gni", "unknown model 'gni'"),
        ("em on gin", "unknown method 'em'"),
    ],
)
def test_unknown_rows_get_suggestions(words: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        names(words)


# ------------------------------------------------------------------------------------------ the paper


def test_every_table_of_the_paper_is_whole() -> None:
    paper = read_numbers()
    main = {key: rows for key, rows in paper["ood_test"].items() if not key.startswith("sp-motif")}
    assert len(main) == 7
    assert all([row for row in rows if ":" not in row] == NAMES for rows in main.values())
    changed = [[row.partition(":")[2] for row in rows if ":" in row] for rows in main.values()]
    assert [rows for rows in changed if rows] == [CHANGES] * 4  # Motif and HIV, two domains each
    assert set(CHANGES) <= set(presets("goodformer"))
    spurious = [rows for key, rows in paper["ood_test"].items() if key.startswith("sp-motif")]
    assert [list(rows) for rows in spurious] == [["gps", "exphormer", "goodformer"]] * 3
    assert list(paper["precision_at_10"]["good-motif/basis"]) == ["dir", "gsat", "ciga", "goodformer"]
    assert len(paper["seconds_per_epoch"]["good-motif/basis"]) == 4


def test_goodformer_is_the_best_in_every_table_of_the_paper() -> None:
    paper = read_numbers()
    for table in (*paper["ood_test"].values(), *paper["precision_at_10"].values()):
        assert table["goodformer"][0] == max(mean for mean, _ in table.values())


@pytest.mark.parametrize(
    ("figure", "dataset", "row", "expected"),
    [
        ("ood_test", BASIS, "erm", (63.80, 10.36)),
        ("ood_test", BASIS, "imold", (71.02, 1.90)),
        ("ood_test", SIZE, "cal-plus", (72.22, 4.78)),
        ("ood_test", {"name": "good-hiv", "domain": "scaffold"}, "irm", (70.17, 2.78)),
        ("ood_test", {"name": "good-hiv", "domain": "size"}, "exphormer", (53.85, 2.61)),
        ("ood_test", {"name": "good-sst2", "domain": "length"}, "gil", (82.19, 1.10)),
        ("ood_test", {"name": "good-twitter", "domain": "length"}, "gps", (58.89, 1.32)),
        ("ood_test", {"name": "drugood", "domain": "assay"}, "goodformer", (71.75, 0.08)),
        ("ood_test", {"name": "drugood", "domain": "assay", "noise": "general"}, "goodformer", None),
        ("ood_test", SPURIOUS, "goodformer", (72.55, 10.43)),
        ("ood_test", {"name": "sp-motif", "bias": 0.5}, "exphormer", (40.17, 6.07)),
        ("precision_at_10", BASIS, "gsat", (0.396, 0.077)),
        ("precision_at_10", SIZE, "gsat", None),
        ("ood_test", SIZE, "goodformer:without-entropy", (69.84, 6.48)),
        ("ood_test", {"name": "good-hiv", "domain": "size"}, "goodformer:mlp-predictor", (59.70, 3.06)),
        ("ood_test", BASIS, row("goodformer:default-without-walks", "good-motif").published, None),
        ("ood_test", BASIS, row("ciga:v1", "good-motif").published, None),
        ("ood_test", {**BASIS, "shift": "concept"}, "erm", None),
        ("ood_test", {"name": "sp-motif", "bias": 0.8}, "gps", None),
    ],
)
def test_numbers_of_the_paper(figure: str, dataset: dict[str, Any], row: str, expected: Any) -> None:
    assert published(figure, dataset, row) == expected


def test_the_leaderboard_is_of_concept_shift_alone() -> None:
    assert leaderboard({**BASIS, "shift": "concept"}, "dir") == (82.96, 4.47)
    assert leaderboard({**SIZE, "shift": "concept"}, "erm") == (70.83, 0.79)
    assert leaderboard({**BASIS, "shift": "covariate"}, "erm") is None
    assert leaderboard({**BASIS, "shift": "concept"}, "goodformer") is None
