"""What all kernels share: densities, minibatches, acceptance, adaptation."""
