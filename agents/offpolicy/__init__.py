"""What the agents that learn from a replay memory share: the memory, the way from it to the network, CUDA graphs."""
