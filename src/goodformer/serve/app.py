"""The web page and the JSON interface of some fitted models."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from goodformer import __version__
from goodformer.errors import InputError
from goodformer.fitted import FittedModel
from goodformer.pages.page import static as page_file
from goodformer.serve.guard import App, Guard, Refused
from goodformer.serve.jobs import Explanations, PredictionJob
from goodformer.serve.limits import Limits
from goodformer.serve.metrics import CONTENT_TYPE
from goodformer.serve.rows import FORMS
from goodformer.serve.schema import PROBLEMS, Answer, Explained, Health, ModelInfo, RowsBody
from goodformer.serve.service import JSON, Service

TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "txt": "text/plain", "svg": "image/svg+xml"}
ABOUT = (
    "Predictions and explanations of fitted models. Send rows as JSON, or the text of a file (CSV, TSV, SMILES, SDF or "
    "JSON lines) with any other content type, which may name the format, such as text/csv. Errors "
    "are objects with one sentence in `error`."
)
Name = Annotated[str | None, Query(description="Name of the model; needed if several models are served.")]
Form = Annotated[
    str | None,
    Query(alias="format", description=f"Format of a file: {', '.join(FORMS)}; default: that of the content type."),
]
Column = Annotated[str | None, Query(description="Column of the SMILES in a file; default: as in training.")]
Sets = Annotated[float | None, Query(ge=0.5, le=0.999, description="Also return conformal sets with this coverage.")]
K = Annotated[int | None, Query(ge=1, description="Number of edges to choose; default: as the scores suggest.")]
BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": RowsBody.model_json_schema(), "example": {"smiles": ["CCO", "c1ccccc1"]}},
            "text/plain": {"schema": {"type": "string"}, "example": "CCO ethanol\nc1ccccc1 benzene\n"},
        },
    }
}


def build(
    models: Mapping[str, FittedModel],
    limits: Limits | None = None,
    token: str | None = None,
    hosts: set[str] | None = None,
) -> App:
    """Return the application that serves some models.

    Args:
        models: The models by the names that requests use.
        limits: What a request may ask for.
        token: The token that requests need, if any.
        hosts: Host names of the server besides its addresses and ``localhost``.
    """
    service = Service(models, limits or Limits())

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.worker.start()
        yield
        await asyncio.to_thread(service.worker.stop)

    about = {"title": "goodformer", "version": __version__, "description": ABOUT}
    app = FastAPI(**about, docs_url=None, redoc_url=None, lifespan=lifespan)  # type: ignore[arg-type]
    _add_answers(app, service)
    _add_state(app, service)
    _add_page(app)
    _add_errors(app)
    paths = {route.path for route in app.routes if hasattr(route, "path")}
    return Guard(app, hosts or set(), token, service.limits, service.metrics, paths)


def _add_answers(app: FastAPI, service: Service) -> None:
    """Add the addresses that compute."""

    @app.post("/predict", response_model=Answer, responses=PROBLEMS, openapi_extra=BODY)
    async def predict(
        request: Request, model: Name = None, form: Form = None, smiles: Column = None, sets: Sets = None
    ) -> Response:
        """Predict rows: class, calibrated probabilities and domain score."""
        name, fitted = service.model(model)
        kind = request.headers.get("content-type", "")
        rows = service.rows(fitted, await request.body(), kind, form, smiles)
        return _json(await service.answer(PredictionJob(name, fitted, rows, sets), request.receive))

    @app.post("/explain", response_model=Explained, responses=PROBLEMS, openapi_extra=BODY)
    async def explain(
        request: Request, model: Name = None, form: Form = None, smiles: Column = None, k: K = None
    ) -> Response:
        """Predict rows and score their edges and nodes."""
        name, fitted = service.model(model)
        kind = request.headers.get("content-type", "")
        rows = service.rows(fitted, await request.body(), kind, form, smiles)
        return _json(await service.answer(Explanations(name, fitted, rows, k), request.receive))


def _json(value: dict[str, Any]) -> Response:
    return Response(json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")), media_type=JSON)


def _add_state(app: FastAPI, service: Service) -> None:
    """Add the addresses that describe the server."""

    @app.get("/models")
    async def list_models() -> list[ModelInfo]:
        """List the models."""
        return [ModelInfo.of(name, model) for name, model in service.models.items()]

    @app.get("/health", response_model=Health, responses={503: {"model": Health}})
    async def health() -> Response:
        """Return whether the server answers."""
        alive = service.worker.alive
        state = Health(status="ok" if alive else "stopping", version=__version__, models=len(service.models))
        return JSONResponse(state.model_dump(), 200 if alive else 503)

    @app.get("/metrics", response_class=Response)
    async def metrics() -> Response:
        """Return counters in Prometheus' text format."""
        return Response(service.metrics.text(), media_type=CONTENT_TYPE)


def _add_page(app: FastAPI) -> None:
    """Add the page and its files, which are read once."""
    static = {
        entry.name: (entry.read_bytes(), TYPES[entry.name.rpartition(".")[2]])
        for entry in files("goodformer.serve").joinpath("static").iterdir()
    }
    static["pages.css"] = (page_file("style.css").encode(), TYPES["css"])

    @app.get("/static/{name}", include_in_schema=False)
    async def file(name: str) -> Response:
        if name not in static:
            raise HTTPException(404)
        content, kind = static[name]
        return Response(content, media_type=kind, headers={"cache-control": "no-cache"})

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return await file("index.html")


def _add_errors(app: FastAPI) -> None:
    """Turn every error into one sentence."""

    @app.exception_handler(Refused)
    async def refuse(request: Request, error: Refused) -> Response:
        return error.response

    @app.exception_handler(InputError)
    async def bad_input(request: Request, error: InputError) -> Response:
        return Refused(422, str(error)).response

    @app.exception_handler(RequestValidationError)
    async def bad_option(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        return Refused(422, f"{first['loc'][-1]}: {first['msg']}; see /openapi.json.").response

    @app.exception_handler(HTTPException)
    async def not_there(request: Request, error: HTTPException) -> Response:
        return Refused(error.status_code, f"{error.detail}; see /openapi.json for all addresses.").response

    @app.exception_handler(Exception)
    async def fault(request: Request, error: Exception) -> Response:
        # uvicorn closes the connection after a fault; the client must know, or its next request fails
        return Refused(500, "the server failed to answer; its log says why.", connection="close").response
