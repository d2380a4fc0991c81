"""What `Keep(groups=...)` asks for, when the draws are made."""

from bayesnn_ppl.inference.runtime.keep import Keep
from bayesnn_ppl.posterior.posterior import Posterior
from bayesnn_ppl.storage import RunFolder

__all__ = ["with_kept_groups"]


def with_kept_groups(
    posterior: Posterior, keep: Keep, folder: RunFolder | None = None
) -> Posterior:
    """The posterior with its groups, which are written to the folder of the run too."""
    if not keep.groups:
        return posterior
    found = posterior.with_groups(*keep.groups)
    if folder is not None:
        folder.keep_groups({name: found.tree[name].to_dataset() for name in keep.groups})
    return found
