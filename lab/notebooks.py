"""The notebooks of ``examples/``: run them, keep their outputs, and show them in the documentation.

    python -m lab.notebooks examples/*.ipynb --run           # run them; outputs are stored in the notebooks
    python -m lab.notebooks examples/*.ipynb --pages docs    # write docs/notebook-NAME.md and its pictures

Outputs in the repository are small: printed text, and pictures of at most 700 pixels with few colours.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image

WIDTH, COLOURS = 700, 64
"""Pixels across and colours of pictures that are kept."""
SECONDS = 1800
"""Longest time of one cell."""
Notebook = dict[str, Any]


def read(path: Path) -> Notebook:
    """Return the content of a notebook."""
    content: Notebook = json.loads(path.read_text(encoding="utf-8"))
    return content


def executed(path: Path) -> Notebook:
    """Run a notebook from top to bottom, in a copy of its folder, and return it with its outputs.

    Raises:
        nbclient.exceptions.CellExecutionError: A cell failed.
    """
    import nbformat
    from nbclient import NotebookClient

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / path.parent.name
        shutil.copytree(path.parent, place)
        notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
        NotebookClient(notebook, timeout=SECONDS, resources={"metadata": {"path": str(place)}}).execute()
    content: Notebook = json.loads(nbformat.writes(notebook))  # type: ignore[no-untyped-call]
    return content


def kept(notebook: Notebook) -> Notebook:
    """Return a notebook with the outputs that are kept: text and small pictures, nothing that says when it ran."""
    for cell in notebook["cells"]:
        cell["metadata"] = {}
        if cell["cell_type"] == "code":
            cell["outputs"] = [small(one) for one in cell["outputs"] if one.get("name") != "stderr"]
    notebook["metadata"]["language_info"] = {"name": "python"}
    return notebook


def small(output: dict[str, Any]) -> dict[str, Any]:
    """Return an output with a picture of few pixels and colours; text stays as it is."""
    encoded = output.get("data", {}).get("image/png")
    if encoded is None:
        return output
    picture = Image.open(io.BytesIO(base64.b64decode(encoded))).convert("RGB")
    if picture.width > WIDTH:
        picture = picture.resize((WIDTH, round(picture.height * WIDTH / picture.width)), Image.Resampling.LANCZOS)
    file = io.BytesIO()
    picture.quantize(COLOURS).save(file, "PNG", optimize=True)
    data = {"image/png": base64.b64encode(file.getvalue()).decode()}
    return {"output_type": output["output_type"], "data": data, "metadata": {}} | (
        {"execution_count": output["execution_count"]} if "execution_count" in output else {}
    )


def page(notebook: Notebook, name: str) -> tuple[str, dict[str, bytes]]:
    """Return a notebook as Markdown, and its pictures by file name."""
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in notebook["cells"]:
        text = "".join(cell["source"]).strip()
        if cell["cell_type"] == "markdown":
            parts.append(text)
            if len(parts) == 1:
                parts.append(f"*This page is the notebook `examples/{name}.ipynb`. Open it with Jupyter to run it.*")
            continue
        parts.append(f"```py\n{text}\n```")  # not python: tests run the notebook, not this page
        printed = ""
        for output in cell["outputs"]:
            printed += "".join(output.get("text", output.get("data", {}).get("text/plain", "")))
        if printed.strip():
            parts.append(f"```text\n{printed.rstrip()}\n```")
        for output in cell["outputs"]:
            if "image/png" in output.get("data", {}):
                file = f"notebook-{name}-{len(pictures) + 1}.png"
                pictures[file] = base64.b64decode("".join(output["data"]["image/png"]))
                parts.append(f"![Output of the cell above](images/{file})")
    return "\n\n".join(parts) + "\n", pictures


def main(arguments: Sequence[str] | None = None) -> None:
    """Run notebooks, or write their pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("notebooks", nargs="+", type=Path)
    parser.add_argument("--run", action="store_true", help="run the notebooks and store their outputs")
    parser.add_argument("--pages", type=Path, help="folder of the documentation")
    options = parser.parse_args(arguments)
    for path in options.notebooks:
        if options.run:
            content = kept(executed(path))
            path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        if options.pages:
            text, pictures = page(read(path), path.stem)
            (options.pages / f"notebook-{path.stem}.md").write_text(text, encoding="utf-8")
            for name, picture in pictures.items():
                (options.pages / "images" / name).write_bytes(picture)


if __name__ == "__main__":
    main()
