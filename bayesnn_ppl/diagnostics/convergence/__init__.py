"""R-hat, effective sample sizes and Monte Carlo errors."""
