"""`find_step_size`: pilot runs that look for a step size."""
