"""The parts of a report, one a file: a subject in, HTML out, nothing where there is nothing."""
