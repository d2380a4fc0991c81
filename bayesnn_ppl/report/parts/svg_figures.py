"""Matplotlib figures as SVG inside a page: its colours, its letters, and a title for each point."""

import functools
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

from matplotlib import rc_context, rc_params_from_file
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from bayesnn_ppl.plots.figure import STYLE
from bayesnn_ppl.report.parts.markup import text

_SVG, _LINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_NUMBER = re.compile(r"-?\d+\.\d{2,}(?:e[+-]?\d+)?")
_COLOUR = re.compile(r"#[0-9a-f]{6}")
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_FONT = re.compile(r"'DejaVu Sans'[^;\"]*")


def figure(
    drawn: Figure,
    name: str,
    alternative: str,
    caption: str = "",
    *,
    titles: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """A figure of the page, whose colours follow the page's theme.

    Greys become mixtures of ink and paper and the palette's colours variables of the style sheet,
    so that one drawing serves light, dark and print. Letters stay letters: they can be searched,
    read aloud and enlarged.

    Args:
        drawn: what a function of `plots` returned.
        name: unique within the page; a prefix to all identifiers.
        alternative: what the figure shows, in words, for those who do not see it.
        caption: the text below it.
        titles: name given to a line by `set_gid` -> what each of its markers says where it is
            pointed at.
    """
    buffer = io.BytesIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        drawn.savefig(
            buffer,
            format="svg",
            transparent=True,
            metadata={"Date": None, "Creator": None, "Format": None, "Type": None},
        )
    width, drawing = _themed(buffer.getvalue(), name, alternative, titles or {})
    below = f"<figcaption>{text(caption)}</figcaption>" if caption else ""
    # One that is too wide for a narrow screen is scrolled, for letters too small say nothing.
    return (
        f'<figure id="{name}"><div class="drawing" tabindex="0" role="group" '
        f'aria-label="{text(alternative)}" style="--width:{width:.0f}px">{drawing}</div>'
        f"{below}</figure>\n"
    )


def mark_chains(artists: Sequence[Any], chains: int) -> None:
    """Name the first `chains` artists, so that the page can show and hide them."""
    for chain, artist in zip(range(chains), artists, strict=False):
        artist.set_gid(f"chain-{chain}")


def _themed(
    source: bytes, name: str, alternative: str, titles: Mapping[str, Sequence[str]]
) -> tuple[float, str]:
    """Width in pixels, and the drawing."""
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", _LINK)
    root = ElementTree.fromstring(source)
    for child in list(root):
        if child.tag.endswith("metadata"):
            root.remove(child)
    width = float(root.get("width", "400pt").removesuffix("pt")) * 4 / 3
    for attribute in ("width", "height", "version"):
        root.attrib.pop(attribute, None)
    root.set("role", "img")
    root.set("aria-label", alternative)
    for group in list(root.iter(f"{{{_SVG}}}g")):
        uses = group.iter(f"{{{_SVG}}}use") if group.get("id") in titles else ()
        for use, words in zip(uses, titles.get(group.get("id", ""), ()), strict=False):
            ElementTree.SubElement(use, f"{{{_SVG}}}title").text = words
    for element in root.iter():
        _adapt(element, name)
    drawing = ElementTree.tostring(root, encoding="unicode")
    return width, drawing


def _adapt(element: ElementTree.Element, name: str) -> None:
    found = element.attrib
    identifier = found.get("id")
    if identifier and identifier.startswith("chain-"):
        found["class"] = identifier
        del found["id"]
    elif identifier:
        found["id"] = f"{name}-{identifier}"
    for key in ("d", "points", "x", "y"):
        if key in found:
            found[key] = " ".join(_NUMBER.sub(_short, found[key]).split())
    style = found.get("style")
    if style:
        found["style"] = _FONT.sub("system-ui, sans-serif", _COLOUR.sub(_variable, style))
    for key, value in list(found.items()):
        if "url(#" in value:
            found[key] = _REFERENCE.sub(rf"url(#{name}-\1)", value)
    link = f"{{{_LINK}}}href"
    if link in found and found[link].startswith("#"):
        # The plain attribute is SVG 2, which every browser of today reads.
        found["href"] = f"#{name}-{found.pop(link)[1:]}"


@functools.cache
def _palette() -> list[str]:
    """The colours of the style, but for black, which is ink like that of the axes."""
    colours = rc_params_from_file(STYLE)["axes.prop_cycle"].by_key()["color"]
    return [name for colour in colours if (name := to_hex(colour)) != "#000000"]


def _short(match: re.Match[str]) -> str:
    """A tenth of a point is finer than any screen."""
    return f"{float(match[0]):.1f}".removesuffix(".0")


def _variable(match: re.Match[str]) -> str:
    colour = match[0]
    if colour in _palette():
        return f"var(--c{_palette().index(colour)})"
    red, green, blue = colour[1:3], colour[3:5], colour[5:7]
    if red == green == blue:
        ink = round(100 * (1 - int(red, 16) / 255))
        return f"color-mix(in srgb, var(--ink) {ink}%, var(--paper))"
    return colour
