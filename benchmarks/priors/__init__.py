"""What priors say and what they change."""
