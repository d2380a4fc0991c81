"""Simulation-based calibration of any kernel or approximation, on any model.

Parameters are drawn from the prior, data from the likelihood, and draws by the method under test.
Where the method is right, the rank of each true quantity among its draws is uniform.
"""

from bayesnn_ppl.calibration.result import Calibration, QuantityCalibration
from bayesnn_ppl.calibration.running import calibrate

__all__ = ["Calibration", "QuantityCalibration", "calibrate"]
