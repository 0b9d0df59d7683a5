"""Tiny models of `transformers`, made from configurations, and adapters of `peft`."""

from typing import Any

import torch
from torch import Tensor, nn

from tests.zoo.networks import Made, network

ROWS, WORDS, TIME = 4, 12, 5
COMMON = {"vocab_size": WORDS, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
SOME = ("fire", "reset", "snp")


def tokens() -> Tensor:
    return torch.randint(1, WORDS, (ROWS, TIME))


def llama_model() -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(**COMMON, intermediate_size=12, num_key_value_heads=1, max_position_embeddings=16)
    return LlamaForCausalLM(config)


HUGGING = {"fresh": True, "silent": False, "coupled": True, "acts": SOME}


@network("GPT2LMHeadModel: Conv1D layers, a tied embedding", tied=(("transformer.wte.weight", "lm_head.weight"),),
         **HUGGING)  # fmt: skip
def gpt2() -> Made:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=WORDS, n_positions=8, n_embd=8, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0)
    return GPT2LMHeadModel(config), tokens()


@network("LlamaForCausalLM", **HUGGING)
def llama() -> Made:
    return llama_model(), tokens()


@network("ViTForImageClassification: class token, position embeddings", **HUGGING)
def vit() -> Made:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=12, image_size=8, patch_size=4,
        num_channels=1,
    )  # fmt: skip
    return ViTForImageClassification(config), torch.randn(ROWS, 1, 8, 8)


LORA = {"fresh": False, "silent": False, "coupled": True}


def adapted(**settings: Any) -> nn.Module:
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(r=2, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM", **settings)
    return get_peft_model(llama_model(), config)


@network("a Llama with LoRA adapters (peft)", **LORA)
def lora() -> Made:
    return adapted(), tokens()
