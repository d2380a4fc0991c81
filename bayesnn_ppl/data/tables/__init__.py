"""Data from tables: CSV, Parquet, pandas, polars."""
