"""The curvature of a model's log density around a mode, in several structures."""
