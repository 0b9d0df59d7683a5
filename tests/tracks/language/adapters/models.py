"""Models for tests of adapters: a small network with and without them, and a tiny LLaMA."""

import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

from supple.tracks.language.adapters import adapters, add_task, maker, wrap


def plain(dtype: torch.dtype = torch.float64, width: int = 8) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, width), nn.Tanh(), nn.Linear(width, 3)).to(dtype).eval()


def adapted(kind: str = "moram", tasks: int = 3, dtype: torch.dtype = torch.float64, **params) -> nn.Sequential:
    """`plain` with adapters of rank 4 in both layers, whose values are not 0, as after training."""
    model, source = plain(dtype), torch.Generator().manual_seed(1)
    wrap(model, ["0", "2"], maker(kind, **{"r": 4, **params}))
    for _ in range(tasks):
        add_task(model, source)
        for adapter in adapters(model).values():
            nn.init.normal_(adapter.B, generator=source)
    return model


def inputs(*shape: int) -> Tensor:
    return torch.randn(*shape, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def llama(tied: bool = False) -> LlamaForCausalLM:
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "vocab_size": 20}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "bos_token_id": 1, "eos_token_id": 2}
    return LlamaForCausalLM(LlamaConfig(**sizes, **heads, tie_word_embeddings=tied)).eval()
