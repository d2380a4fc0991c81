"""Many short blocks: held of them in memory are their draws, and not the buffers they were."""

import numpy as np

from bayesnn_ppl.storage import RunFolder


def test_a_short_block_does_not_keep_its_buffer(tmp_path):
    run = RunFolder.create(tmp_path / "run", {"kernel": "none", "site_names": {"w": "w"}})
    for number in range(200):
        buffer = np.full((2, 250, 3), float(number))
        block = buffer[:, :1]
        run.append({"posterior": {"w": block}, "sample_stats": {"lp": block[..., 0]}})
    held = [part for group in run._tail.values() for parts in group.values() for part in parts]
    assert len(held) <= 2 * 65, "parts are joined"
    owned = sum((part if part.base is None else part.base).nbytes for part in held)
    assert owned == 200 * 2 * 4 * 8, "a view would hold 250 times as much"
    run.commit(None, phase="sample", done=200)
    run.release()
