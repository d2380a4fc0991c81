"""A report and the sampler gallery, made by the library itself and copied beside the pages.

Both are made when the documentation is built, so that they are those of this version, and made
again only when the library's sources have changed: the gallery is some 600 runs.
"""

import hashlib
import shutil
import sys
from importlib.metadata import version
from pathlib import Path

# What stands above the report in the layers changes nothing on a page.
_ABOVE = {"cli", "experiments", "settings", "calibration"}
_FOLDER = "_generated/hosted"


def setup(app):
    """What Sphinx calls."""
    app.connect("builder-inited", _write)
    app.connect("build-finished", _copy)
    return {"parallel_read_safe": True}


def _write(app):
    docs = Path(app.srcdir)
    folder = docs / _FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    gap = docs / "figures" / "gap.py"
    for name, make, inputs in (("report", _report, [gap]), ("gallery", _gallery, [])):
        stamp, key = folder / f"{name}.sha256", _key([Path(__file__), *inputs])
        if not stamp.exists() or stamp.read_text() != key:
            make(docs).save(folder / f"{name}.html")
            stamp.write_text(key)


def _copy(app, failure):
    if failure is None and app.builder.format == "html":
        target = Path(app.outdir) / "hosted"
        target.mkdir(exist_ok=True)
        for page in (Path(app.srcdir) / _FOLDER).glob("*.html"):
            shutil.copyfile(page, target / page.name)


def _key(files):
    """A hash of all that a page is made from: the library, what it stands on, and `files`."""
    import bayesnn_ppl

    package = Path(bayesnn_ppl.__file__).parent
    found = hashlib.sha256()
    for name in ("jax", "numpyro", "matplotlib"):
        found.update(f"{name} {version(name)}".encode())
    for path in sorted(package.rglob("*")):
        is_below = path.relative_to(package).parts[0] not in _ABOVE
        if is_below and path.suffix in {".py", ".css", ".js", ".html"}:
            files = [*files, path]
    for path in files:
        found.update(path.read_bytes())
    return found.hexdigest()


def _report(docs):
    """The report of the run that the home page draws."""
    import bayesnn_ppl as bnn

    sys.path.insert(0, str(docs / "figures"))
    import gap

    data, posterior = gap.sampled()
    words = {
        "command": "python docs/figures/gap.py",
        "data": "a network of 16 units on the data set gap",
    }
    return bnn.report.page({"gap": posterior}, *data.test, train=data.train, words={"gap": words})


def _gallery(docs):
    """The page of `bayesnn gallery` with its defaults."""
    from bayesnn_ppl.report.gallery import gallery_page

    return gallery_page()
