"""Whether a sampler keeps the temperature of its target."""
