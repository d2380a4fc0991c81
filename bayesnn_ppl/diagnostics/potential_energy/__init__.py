"""The potential energy, and its surface between draws."""
