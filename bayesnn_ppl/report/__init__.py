"""The report of a run: one page of HTML that requests nothing and runs without scripts.

`page` puts together what the diagnosis, the figures and the scores of a posterior say, the verdict
first. `bayesnn report` and `bayesnn watch` are made of it.
"""

from bayesnn_ppl.report.building import Page, page

__all__ = ["Page", "page"]
