"""Executes the code cells of a notebook in their order, as Jupyter does, and prints the notebook with their outputs."""
import ast
import contextlib
import io
import json
import sys

with open(sys.argv[1]) as f:
    notebook = json.load(f)
names, number = {}, 0


def lines(text):
    return text.splitlines(keepends=True)


for cell in notebook["cells"]:
    if cell["cell_type"] != "code":
        continue
    number += 1
    tree = ast.parse("".join(cell["source"]))
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, f"cell {number}", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
    cell["execution_count"], cell["outputs"] = number, []
    if printed.getvalue():
        cell["outputs"].append({"name": "stdout", "output_type": "stream", "text": lines(printed.getvalue())})
    if value is not None:
        shown = {"image/svg+xml": lines(value._repr_svg_())} if hasattr(value, "_repr_svg_") else {"text/plain": lines(repr(value))}
        cell["outputs"].append({"data": shown, "execution_count": number, "metadata": {}, "output_type": "execute_result"})
print(json.dumps(notebook, indent=1, ensure_ascii=False))
