"""The sampler gallery: how the library's kernels move on targets in the plane, as one page."""

from bayesnn_ppl.report.gallery.drawing import gallery_page

__all__ = ["gallery_page"]
