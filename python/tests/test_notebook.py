"""The notebook of the documentation runs, and so do the examples of the pages."""

import re
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
DOCS = HERE.parent.parent / "docs"


def test_the_notebook_runs(tmp_path):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    pytest.importorskip("matplotlib")
    notebook = nbformat.read(DOCS / "notebooks" / "policies.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    kinds = {kind for cell in code for output in cell.outputs for kind in output.get("data", {})}
    assert len(code) >= 6 and {"text/html", "image/png"} <= kinds
    assert not any(output.output_type == "error" for cell in code for output in cell.outputs)


def test_the_examples_of_the_pages_run(tmp_path, monkeypatch):
    text = "".join(path.read_text(encoding="utf-8") for path in (HERE.parent / "README.md", DOCS / "python.md"))
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= 7
    monkeypatch.chdir(tmp_path)
    from kernels import VECADD

    (tmp_path / "vecadd.ptx").write_text(VECADD)
    names: dict[str, object] = {}
    for block in blocks:
        if "numba" in block or "triton" in block:
            continue
        exec(compile(block, "page", "exec"), names)  # noqa: S102
