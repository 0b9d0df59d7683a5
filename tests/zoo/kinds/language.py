"""Tiny models of `transformers`, made from configurations, and adapters of `peft`."""

import torch
from torch import Tensor, nn

from tests.zoo.networks import Made, network

ROWS, WORDS = 4, 12
COMMON = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 12}
FACTS = {"silent": False, "coupled": True}


def tokens() -> Tensor:
    return torch.randint(1, WORDS, (ROWS, 5))


def llama_model() -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(**COMMON, vocab_size=WORDS, num_key_value_heads=1, max_position_embeddings=16))


@network("GPT2LMHeadModel: Conv1D layers, a tied embedding", fresh=True, **FACTS)
def gpt2() -> Made:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=WORDS, n_positions=8, n_embd=8, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0)
    return GPT2LMHeadModel(config), tokens()


@network("LlamaForCausalLM", fresh=True, **FACTS)
def llama() -> Made:
    return llama_model(), tokens()


@network("ViTForImageClassification: class token, position embeddings", fresh=True, **FACTS)
def vit() -> Made:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(**COMMON, image_size=8, patch_size=4, num_channels=1)
    return ViTForImageClassification(config), torch.randn(ROWS, 1, 8, 8)


@network("a Llama with LoRA adapters (peft)", **FACTS)
def lora() -> Made:
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(r=2, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    return get_peft_model(llama_model(), config), tokens()
