"""The settings of a fine-tuning run. The defaults are those of the SIB paper (3.1) where it gives them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

import tyro

from supple.engine.settings import Groups
from supple.registry.schema import NotNegative, Positive, Share
from supple.tracks.language.settings import LanguageSettings


@dataclass(kw_only=True)
class SFTSettings(LanguageSettings):
    model: str = ""
    """Model to fine-tune: a folder in transformers' layout, a .gguf file, smollm2 (`supple fetch smollm2`),
    llama:WIDTHxLAYERS (random weights), or OWNER/NAME on the Hugging Face hub (the only one that uses the network)."""
    learn: Annotated[str, tyro.conf.arg(metavar="TASK")] = ""
    """Task to learn: a JSONL file or folder of prompt/answer, mcq:PATH (its multiple-choice questions only), or
    reasoning-gym:NAME."""
    retain: Annotated[str, tyro.conf.arg(metavar="TASK")] = ""
    """Task that should not be forgotten, named like --learn; empty: only the learned task is evaluated."""
    learning_rate: Positive[float] = 1e-5
    """AdamW's maximum learning rate. (The paper sweeps it.)"""
    weight_decay: NotNegative[float] = 0.01
    eval_every: NotNegative[int] = 0
    epochs: Positive[float] = 3.0
    """Epochs over the training examples, before the cool-down."""
    batch_size: Positive[int] = 16
    """Examples per update. (The paper does not say.)"""
    micro_batch: Positive[int] = 4
    """Examples per forward pass. Lower it to save memory."""
    max_length: int = 512
    """Maximum tokens of an example. Longer prompts lose their beginning."""
    warmup: NotNegative[int] = 20
    """Updates over which the learning rate rises from 0."""
    cooldown: NotNegative[int] = 50
    """Updates after the last epoch, at the lowest learning rate."""
    min_rate: Share = 0.1
    """Final learning rate as a share of the maximum."""
    train_examples: Positive[int] | None = None
    """Maximum training examples (default: all; 1000 of a reasoning-gym task)."""
    test_examples: Positive[int] | None = 200
    """Maximum test examples per task in an evaluation."""
    retain_batch: Positive[int] = 16
    """Training examples of --retain in the batch whose loss interventions such as sib use."""
    max_new_tokens: Positive[int] = 256
    """Maximum tokens of a generated answer."""
    examine: bool = True
    """Generate and score answers in evaluations. If off, only losses are computed, which is much faster."""
    save_model: bool = True
    """Save the trained model in the run's folder, in transformers' layout."""

    groups: ClassVar[Groups] = {
        "task": ("learn", "retain", "epochs", "max_length", "train_examples"),
        "network": ("model",),
        "measuring": ("test_examples", "max_new_tokens", "examine"),
        "speed": ("micro_batch",),
        "output": ("save_model",),
    }

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if not self.model:
            yield "--model is missing: which model is to be fine-tuned, such as --model smollm2"
        if not self.learn:
            yield "--learn is missing: what is to be learned, such as --learn questions.jsonl"
        if self.max_length < 2:
            yield f"--max-length must be 2 or more (a prompt and an answer), got {self.max_length}"
        if self.micro_batch > 0 and self.batch_size % self.micro_batch:
            yield f"--batch-size {self.batch_size} must be a multiple of --micro-batch {self.micro_batch}"
