"""One thread for PyTorch: the networks here are small, and the tests run side by side."""

import torch

torch.set_num_threads(1)
