"""The JSON interface: the answers of the command line, one sentence for every error, and nothing about this machine."""

from __future__ import annotations

import csv
import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any

import httpx
import pytest

from goodformer import cli
from goodformer.explain.explanation import explain
from goodformer.explain.fidelity import NONE
from goodformer.fitted import FittedModel
from tests.apply.molecules import FITTED
from tests.serve.conftest import Site, of_graphs, running

ROOT = Path(__file__).parents[2]
NEW = ROOT / "examples" / "new.csv"
TEXT = {"content-type": "text/plain"}


def of_command(tmp_path: Path, source: Path, *options: str) -> list[dict[str, str]]:
    """What ``goodformer predict`` writes for a file."""
    out = tmp_path / "answers.csv"
    assert cli.run(["predict", str(FITTED), str(source), "-o", str(out), "--quiet", *options]) == 0
    with out.open(newline="") as file:
        return list(csv.DictReader(file))


def rows_of(answer: dict[str, Any]) -> list[dict[str, str]]:
    """The rows of an answer as a CSV file would hold them."""
    columns = answer["columns"]
    return [
        {name: "" if values[row] is None else str(values[row]) for name, values in columns.items()}
        for row in range(answer["rows"])
    ]


def test_a_file_gets_the_answers_of_the_command_line(site: Site, tmp_path: Path) -> None:
    answer = site.client.post("/predict?sets=0.9", content=NEW.read_bytes(), headers={"content-type": "text/csv"})
    assert answer.status_code == 200
    assert rows_of(answer.json()) == of_command(tmp_path, NEW, "--sets", "0.9")
    assert (answer.json()["rows"], answer.json()["unreadable"], answer.json()["model"]) == (12, 1, "nitro")
    assert answer.json()["outside"] == answer.json()["columns"]["outside"].count(True) > 0
    assert answer.json()["input"] == ["name", "smiles"]


def test_every_way_to_send_molecules_gets_one_answer(site: Site) -> None:
    with NEW.open() as file:
        rows = list(csv.DictReader(file))[:8]
    smiles = [row["smiles"] for row in rows]
    listed = site.client.post("/predict", json={"smiles": smiles}).json()["columns"]["p_yes"]
    assert None not in listed
    for body in (
        "\n".join(smiles),
        "smiles,name\n" + "\n".join(f"{one},x" for one in smiles),
        "name;smiles\n" + "\n".join(f"x;{one}" for one in smiles),
        "\n".join(json.dumps({"smiles": one}) for one in smiles),
    ):
        assert site.client.post("/predict", content=body, headers=TEXT).json()["columns"]["p_yes"] == listed
    alone = [site.client.post("/predict", json={"smiles": [one]}).json()["columns"]["p_yes"][0] for one in smiles]
    assert alone == listed


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("text/csv; charset=utf-8", "name,structure\nx,CCO\n"),
        ("text/csv", "structure\nCCO\n"),  # as text/plain, two SMILES
        ("text/tab-separated-values", "name\tstructure\nx\tCCO\n"),
        ("Application/X-NDJSON", '\n{"structure": "CCO"}\n'),
    ],
)
def test_a_content_type_names_the_format(site: Site, kind: str, body: str) -> None:
    head = {"content-type": kind}
    if not body.lstrip().startswith("{"):  # lines of JSON are refused one by one
        refused = site.client.post("/predict", content=body, headers=head)
        assert refused.status_code == 422
        assert "'smiles'" in refused.json()["error"]
    answer = site.client.post("/predict?smiles=structure", content=body, headers=head).json()
    assert answer["columns"]["structure"] == ["CCO"]
    wanted = site.client.post("/predict", json={"smiles": ["CCO"]}).json()
    assert answer["columns"]["p_yes"] == wanted["columns"]["p_yes"]
    as_said = site.client.post("/predict?format=smi", content="CCO\n", headers=head).json()
    assert as_said["columns"]["p_yes"] == wanted["columns"]["p_yes"]


def test_sdf_records_are_read(site: Site) -> None:
    from rdkit import Chem
    from rdkit.Chem import AllChem

    blocks = []
    for smiles in ("Cc1ccccc1", "CCO"):
        mol = Chem.MolFromSmiles(smiles)
        AllChem.Compute2DCoords(mol)
        blocks.append(Chem.MolToMolBlock(mol) + ">  <batch>\n7\n\n$$$$\n")
    answer = site.client.post("/predict", content="".join(blocks), headers=TEXT).json()
    wanted = site.client.post("/predict", json={"smiles": ["Cc1ccccc1", "CCO"]}).json()
    assert answer["columns"]["p_yes"] == wanted["columns"]["p_yes"]
    assert answer["columns"]["batch"] == ["7", "7"]
    assert site.client.post("/explain", content="".join(blocks), headers=TEXT).json()["graphs"][1]["elements"][2] == "O"


def test_explanations_hold_scores_and_a_picture(site: Site, fitted: FittedModel) -> None:
    answer = site.client.post("/explain?k=2", json={"smiles": ["bad(", "C[N+](=O)[O-]"]}).json()
    (graph,) = answer["graphs"]
    assert (graph["row"], graph["num_nodes"], graph["k"], answer["explanation"]) == (2, 4, 2, "post-hoc")
    assert graph["elements"] == ["C", "N", "O", "O"]
    assert len(graph["places"]) == len(graph["node_scores"]) == 4
    assert graph["picture"].count("<path") > 4
    assert answer["columns"]["problem"][0]
    assert answer["columns"]["predicted"][1] in fitted.classes["nitro"]


def test_pictures_are_marked_as_those_of_explain(site: Site, fitted: FittedModel) -> None:
    smiles = ["c1ccccc1CC[N+](=O)[O-]", "CCO"]
    graphs = site.client.post("/explain", json={"smiles": smiles}).json()["graphs"]
    assert [graph["verdict"] for graph in graphs] == explain(fitted, fitted.read(smiles).graphs).verdicts
    assert [graph["verdict"] == NONE for graph in graphs] == [False, True]  # otherwise there is nothing to compare
    for graph in graphs:
        assert graph["marked"] == (graph["verdict"] != NONE)
        assert (len(set(re.findall("#[0-9A-Fa-f]{6}", graph["picture"]))) > 1) == graph["marked"]  # not only black


def test_graphs_that_are_not_molecules() -> None:
    with running({"motif": of_graphs()}) as site:
        graphs = [{"edges": [[0, 1], [1, 2]], "id": 4}, {"edges": [[0, 9]], "num_nodes": 2}]
        answer = site.client.post("/predict", json={"graphs": graphs}).json()
        assert answer["columns"]["predicted"][0] in {"0", "1", "2"}
        assert "node 9" in answer["columns"]["problem"][1]
        assert (answer["molecules"], answer["outside"], answer["columns"]["id"]) == (None, None, [4, None])
        lines = "\n".join(map(json.dumps, graphs))
        assert site.client.post("/predict", content=lines, headers=TEXT).json()["columns"] == answer["columns"]
        (graph,) = site.client.post("/explain", json={"graphs": graphs}).json()["graphs"]
        assert len(graph["node_scores"]) == 3
        assert "picture" not in graph
        huge = site.client.post("/predict", json={"graphs": [{"edges": [[0, 2**31 - 1]]}]})
        assert huge.status_code == 422
        assert site.client.post("/predict", json={"smiles": ["CCO"]}).status_code == 422


def test_several_models_need_a_name(two: Site) -> None:
    assert [model["name"] for model in two.client.get("/models").json()] == ["nitro", "other"]
    refused = two.client.post("/predict", json={"smiles": ["CCO"]})
    assert refused.status_code == 422
    assert "nitro, other" in refused.json()["error"]
    assert two.client.post("/predict?model=nowhere", json={"smiles": ["CCO"]}).status_code == 404
    answer = two.client.post("/predict?model=other", json={"smiles": ["CCO"]}).json()
    assert answer["columns"]["predicted"][0] in {"low", "high"}
    assert answer["outside"] is None


@pytest.mark.parametrize(
    ("path", "given", "status", "fact"),
    [
        ("/predict", {"json": {"smiles": ["CCO"], "sets": 1}}, 422, "sets"),
        ("/predict", {"json": {}}, 422, "smiles or graphs"),
        ("/predict", {"json": {"smiles": [7]}}, 422, "smiles.0"),
        ("/predict", {"json": {"smiles": []}}, 422, "no rows"),
        ("/predict", {"content": b"", "headers": TEXT}, 422, "empty"),
        ("/predict", {"content": b"{", "headers": {"content-type": "application/json"}}, 422, "smiles"),
        ("/predict?sets=2", {"json": {"smiles": ["C"]}}, 422, "sets"),
        ("/predict?format=pkl", {"content": b"C", "headers": TEXT}, 422, "pkl"),
        ("/predict?format=csv", {"content": b"a,b\n1,2\n", "headers": TEXT}, 422, "with ?smiles=COLUMN"),
        ("/predict?smiles=structure", {"content": b"smiles,b\nC,2\n", "headers": TEXT}, 422, "'structure'"),
        ("/predict", {"content": b"smiles,b\nC,2\nC\n", "headers": TEXT}, 422, "row 2"),
        ("/predict?format=csv", {"content": b"\x00\x01\xff\xfe", "headers": TEXT}, 422, "UTF-8"),
        ("/predict", {"json": {"smiles": ["C"] * 301}}, 422, "300 rows"),
        ("/predict", {"content": b"C\n" * 301, "headers": TEXT}, 422, "300 rows"),
        ("/predict", {"json": {"smiles": ["C" * 1001]}}, 422, "1,001 characters"),
        ("/predict", {"content": b"C" * 1001, "headers": TEXT}, 422, "characters"),
        ("/predict?format=sdf", {"content": b"\n" * 2000, "headers": TEXT}, 422, "record 1"),
        ("/predict", {"content": b'{"edges": [], "num_nodes": 99999999999}', "headers": TEXT}, 422, "nodes"),
        ("/predict", {"content": b"C" * (2**20 + 1), "headers": TEXT}, 413, "1 MB"),
        ("/predict", {"json": {"smiles": ["C"]}, "headers": {"host": "evil.example"}}, 421, "evil.example"),
        ("/predict", {"json": {"smiles": ["C"]}, "headers": {"origin": "http://evil.example"}}, 403, "web pages"),
        ("/predict", {"json": {"smiles": ["C"]}, "headers": {"origin": "http://["}}, 400, "Origin"),
        ("/predict", {"json": {"smiles": ["C"]}, "headers": {"host": "[::1"}}, 400, "Host"),
        ("/nowhere", {"json": {}}, 404, "openapi"),
        ("/static/..%2fapp.py", {"json": {}}, 404, "openapi"),
    ],
)
def test_bad_requests_get_one_sentence(site: Site, path: str, given: dict[str, Any], status: int, fact: str) -> None:
    answer = site.client.post(path, **given)
    assert answer.status_code == status
    sentence = answer.json()["error"]
    assert fact in sentence
    assert "\n" not in sentence
    for place in (tempfile.gettempdir(), str(ROOT), str(FITTED), os.path.expanduser("~")):
        assert place not in answer.text


def test_rows_with_too_many_atoms_are_refused_alone(site: Site) -> None:
    columns = site.client.post("/predict", json={"smiles": ["CCO", "C" * 51, "C" * 50]}).json()["columns"]
    assert [value is None for value in columns["predicted"]] == [False, True, False]
    assert "51" in columns["problem"][1]


def test_a_chunked_body_is_limited_too(site: Site) -> None:
    answer = site.client.post("/predict", content=(b"C" * 2**16 for _ in range(40)), headers=TEXT)
    assert answer.status_code == 413


def test_uploads_leave_nothing_behind(site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for body in (NEW.read_bytes(), b"smiles,b\nC,2\nC\n", b"C\n" * 301):
        site.client.post("/predict", content=body, headers=TEXT)
    assert not list(tmp_path.iterdir())


def test_a_fault_is_not_explained_to_the_client(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("/secret/place")

    with monkeypatch.context() as patch:
        patch.setattr(FittedModel, "predict", fail)
        answer = site.client.post("/predict", json={"smiles": ["C"]})
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert site.client.post("/predict", json={"smiles": ["C"]}).status_code == 200


def test_a_token_is_needed_where_there_is_one(fitted: FittedModel) -> None:
    with running({"nitro": fitted}, token="long and random") as site:
        for path in ("/models", "/metrics", "/openapi.json"):
            assert site.client.get(path).status_code == 401
            assert site.client.get(path, headers={"authorization": "Bearer long and random"}).status_code == 200
        for word in ("Bearer", "Bearer wrong", "Basic long and random", "Bearer long and random2", "Bearer größe"):
            assert site.client.get("/models", headers={"authorization": word.encode()}).status_code == 401
        assert site.client.post("/predict", json={"smiles": ["C"]}).status_code == 401
        for path in ("/health", "/", "/static/app.js"):
            assert site.client.get(path).status_code == 200


def test_every_answer_has_the_protecting_headers(site: Site) -> None:
    for path in ("/", "/health", "/nowhere", "/static/app.js", "/openapi.json"):
        headers = site.client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in headers


def test_health_metrics_and_description(site: Site) -> None:
    assert site.client.get("/health").json()["status"] == "ok"
    before = counters(site.client)
    site.client.post("/predict", json={"smiles": ["CC", "CCC"]})
    after = counters(site.client)
    key = 'goodformer_requests_total{path="/predict",status="200"}'
    assert after[key] == before.get(key, 0) + 1
    assert after['goodformer_rows_total{model="nitro"}'] == before.get('goodformer_rows_total{model="nitro"}', 0) + 2
    described = site.client.get("/openapi.json").json()
    assert set(described["paths"]) == {"/predict", "/explain", "/models", "/health", "/metrics"}
    answer = described["components"]["schemas"]["Answer"]["properties"]
    assert set(site.client.post("/predict", json={"smiles": ["CC"]}).json()) == set(answer)
    explained = described["components"]["schemas"]["Explained"]["properties"]
    assert set(site.client.post("/explain", json={"smiles": ["CC"]}).json()) == set(explained)


def counters(client: httpx.Client) -> dict[str, float]:
    lines = [line for line in client.get("/metrics").text.splitlines() if not line.startswith("#")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}
