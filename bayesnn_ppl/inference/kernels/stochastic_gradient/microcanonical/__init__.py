"""The microcanonical kernel of minibatch gradients."""
