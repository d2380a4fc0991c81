"""What all data sources share: data sets, splits, standardisation, checks."""
