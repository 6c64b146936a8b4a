"""Requests and answers of the JSON interface, as its description lists them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from goodformer.fitted import FittedModel


class RowsBody(BaseModel):
    """Rows as JSON: SMILES or graphs."""

    model_config = ConfigDict(extra="forbid")
    smiles: Annotated[list[str | None] | None, Field(description="Molecules as SMILES.")] = None
    graphs: Annotated[
        list[dict[str, Any]] | None,
        Field(description="Graphs with edges and, if the model was trained with them, x and edge_attr."),
    ] = None


class Answer(BaseModel):
    """Rows with their predictions, as columns."""

    model: Annotated[str, Field(description="Name of the model.")]
    rows: Annotated[int, Field(description="Number of rows.")]
    unreadable: Annotated[int, Field(description="Rows that cannot be read; the column problem says why.")]
    outside: Annotated[int | None, Field(description="Rows outside the training domain; null if not known.")]
    input: Annotated[list[str], Field(description="Names of the columns that were sent.")]
    answer: Annotated[list[str], Field(description="Names of the columns that were added, as by goodformer predict.")]
    columns: Annotated[dict[str, list[Any]], Field(description="All columns, one value per row.")]
    molecules: Annotated[list[str | None] | None, Field(description="SMILES as read; null for other graphs.")]
    notes: Annotated[list[str], Field(description="How the rows were read, and limits of the model.")]


class Explained(Answer):
    """Rows with their predictions and explanations."""

    explanation: Annotated[str | None, Field(description="own if the method scores edges itself, otherwise post-hoc.")]
    graphs: Annotated[
        list[dict[str, Any]],
        Field(
            description="For each readable row: row (from 1), edges (best first) and their scores, node_scores, k (how "
            "many edges are chosen), fidelity, verdict, marked (false if no single part decides) and, for molecules, "
            "elements, places and picture (SVG), which has no colours unless marked."
        ),
    ]


class ModelInfo(BaseModel):
    """A fitted model."""

    name: str
    method: str
    classes: Annotated[dict[str, list[str]], Field(description="Class names of each target.")]
    molecules: Annotated[bool, Field(description="Whether the model reads molecules.")]
    smiles: Annotated[str | None, Field(description="Column of the SMILES in files.")]
    domain: Annotated[bool, Field(description="Whether answers have a domain check.")]
    notes: Annotated[list[str], Field(description="Limits of the model.")]

    @classmethod
    def of(cls, name: str, model: FittedModel) -> Self:
        """Describe a model."""
        return cls(
            name=name,
            method=model.file.method["name"],
            classes={target: list(names) for target, names in model.classes.items()},
            molecules=model.molecular,
            smiles=model.smiles,
            domain=model.knows_domain,
            notes=list(model.uncertainty.notes) if model.uncertainty else [],
        )


class Problem(BaseModel):
    """Why a request was not answered."""

    error: str


class Health(BaseModel):
    """State of the server."""

    status: Literal["ok", "stopping"]
    version: str
    models: int


PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": text}
    for status, text in {
        401: "The token is missing or wrong.",
        404: "There is no such model.",
        408: "The request arrived too slowly.",
        413: "The request is too large.",
        422: "The rows or an option cannot be used.",
        503: "Too many requests are waiting.",
        504: "The answer took too long.",
    }.items()
}
