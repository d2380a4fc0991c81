"""Studies of what the library costs and how good it is: `python -m benchmarks` lists them.

A study is a module with a function `main`, whose keyword arguments are its options. Ratios are
against a baseline timed in the same run; results are in `benchmarks/results`.
"""
