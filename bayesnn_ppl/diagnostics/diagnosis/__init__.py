"""The verdict on a run, its tables and sentences."""
