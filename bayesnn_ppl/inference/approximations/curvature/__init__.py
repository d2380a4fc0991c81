"""The curvature of a program's log density around a mode, in several structures."""
