"""What code of others must leave as it was in PyTorch, added to the list of `supple.registry.calling`."""

import torch

from ..registry import KEPT

KEPT["PyTorch's default dtype"] = torch.get_default_dtype, torch.set_default_dtype
KEPT["PyTorch's gradient mode"] = torch.is_grad_enabled, torch.set_grad_enabled
KEPT["PyTorch's number of threads"] = torch.get_num_threads, torch.set_num_threads
