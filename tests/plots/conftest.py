import matplotlib
import pytest


@pytest.fixture(autouse=True)
def untouched_matplotlib():
    """Every plot leaves the settings, and pyplot's list of open figures, as it found them."""
    import matplotlib.pyplot as plt

    before = dict(matplotlib.rcParams)
    yield
    assert dict(matplotlib.rcParams) == before
    assert plt.get_fignums() == []
