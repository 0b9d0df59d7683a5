"""The parts that DQN and SAC share: the replay memory, the feed from it to the network, and CUDA graphs."""
