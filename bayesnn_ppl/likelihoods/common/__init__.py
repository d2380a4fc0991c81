"""What all likelihoods share."""
