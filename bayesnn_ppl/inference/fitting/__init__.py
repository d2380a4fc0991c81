"""`fit`: an approximation's problem, its stages and its result."""
