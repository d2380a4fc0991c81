"""Claims of the seeds at sizes where two cores can decide them."""
