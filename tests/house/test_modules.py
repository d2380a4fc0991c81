"""Rules that hold for every module, whoever writes the next one."""

import ast
import importlib
import inspect
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "bayesnn_ppl"


def module_names(folder, name):
    """Dotted names of all modules under a package's folder, found without importing them."""
    names = []
    for path in sorted(folder.rglob("*.py")):
        parts = [name, *path.relative_to(folder).with_suffix("").parts]
        names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return [name for name in names if not name.endswith("__main__")]


MODULES = module_names(LIBRARY, "bayesnn_ppl") + module_names(ROOT / "models", "bayesnn_ppl.models")


def names_it_bears_and_exports(module):
    """Functions that a module defines, or lists in `__all__`, under the module's own name."""
    own = module.__name__.rsplit(".", 1)[-1]
    defined = [
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__
    ]
    return [name for name in {*defined, *getattr(module, "__all__", ())} if name == own]


def imports_at_run_time(source):
    """Dotted names that a source imports, outside `if TYPE_CHECKING`."""
    found, open_nodes = set(), [ast.parse(source)]
    while open_nodes:
        node = open_nodes.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            open_nodes += node.orelse
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        open_nodes += ast.iter_child_nodes(node)
    return found


def test_a_module_has_what_it_exports_and_no_function_of_its_own_name():
    for name in MODULES:
        module = importlib.import_module(name)
        missing = [
            public for public in getattr(module, "__all__", ()) if not hasattr(module, public)
        ]
        assert not missing, f"{name}.__all__ names {missing}, which {name} does not have."
        assert not names_it_bears_and_exports(module), f"{name}: importing one hides the other."


def test_no_module_is_called_utils():
    assert not [name for name in MODULES if name.rsplit(".", 1)[-1] in {"utils", "util", "helpers"}]


def test_the_library_finds_its_models_by_name_only():
    """The contract of import-linter does not see the mapped name `bayesnn_ppl.models`."""
    for path in LIBRARY.rglob("*.py"):
        for name in imports_at_run_time(path.read_text()):
            assert not name.startswith("bayesnn_ppl.models"), f"{path} imports {name}."
