"""Public names: signatures carry those that a reader types, and names in the text are links.

`bnn.kernels.HMC` leads to the method's page, `bnn.priors.normal` to its place in the API.
"""

import importlib
import re

from docutils import nodes
from method_pages import MODULES, methods
from pages import API, place_of
from sphinx import addnodes

_NAME = re.compile(r"(?:bnn|bayesnn_ppl)\.([A-Za-z_]\w*(?:\.\w+)?)(?:\(.*\))?")


def setup(app):
    """What Sphinx calls."""
    app.connect("doctree-read", _public_signatures)
    app.connect("doctree-resolved", _link)
    return {"parallel_read_safe": True}


def _public_signatures(app, doctree):
    """`bnn.kernels.HMC(...)` where autodoc writes the module that it imports from."""
    public = {f"{module}.": f"bnn.{title}." for title, module in API.items()}
    public["bayesnn_ppl."] = "bnn."
    for node in doctree.findall(addnodes.desc_addname):
        if node.astext() in public:
            node.children[:] = [nodes.Text(public[node.astext()])]


def _link(app, doctree, docname):
    """Make a public name that stands alone in code type a link to what documents it."""
    for node in list(doctree.findall(nodes.literal)):
        found = _NAME.fullmatch(node.astext())
        inside = (nodes.reference, nodes.title, addnodes.desc_signature)
        if not found or any(isinstance(above, inside) for above in _above(node)):
            continue
        target = _target(app, found[1])
        if target and target[0] != docname:
            address = app.builder.get_relative_uri(docname, target[0])
            address += f"#{target[1]}" if target[1] else ""
            link = nodes.reference("", "", internal=True, refuri=address)
            node.replace_self(link)
            link += node


def _above(node):
    while node.parent is not None:
        node = node.parent
        yield node


def _target(app, name):
    """The page, and the place in it, of a public name without `bnn.`; None where there is none."""
    first, _, rest = name.partition(".")
    if rest and first in MODULES and rest in methods(first):
        return f"methods/{first}/{rest}", ""
    if not rest:
        return _place(app, "bayesnn_ppl", "bayesnn_ppl", first) or (
            (f"_generated/api-{first}", "") if first in API else None
        )
    return _place(app, first, API[first], rest) if first in API else None


def _place(app, title, module, name):
    package = importlib.import_module(module)
    if name not in getattr(package, "__all__", ()):
        return None
    labels = app.env.get_domain("std").anonlabels
    return labels.get(place_of(title, name, getattr(package, name)).lower())
