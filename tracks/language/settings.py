"""The settings that all language kinds share, extended by each kind.

The string under a field is its help line; one without it has that of its base.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from supple.engine.settings import Groups, device_here
from supple.registry.schema import NotNegative, Positive
from supple.tracks.settings import TrackSettings

if TYPE_CHECKING:
    import torch


@dataclass(kw_only=True)
class LanguageSettings(TrackSettings):
    learning_rate: Positive[float] = 6e-4
    """AdamW's maximum learning rate."""
    weight_decay: NotNegative[float] = 0.1
    """AdamW's weight decay of matrices and embeddings; other parameters have none."""
    max_grad_norm: Positive[float] | None = 1.0
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Precision of products: bfloat16 by autocast (auto: on GPUs that support it), or float32. Weights are float32."""

    groups: ClassVar[Groups] = {"speed": ("precision",)}

    def autocast(self) -> "torch.autocast":
        """Return the context in which products are computed in `precision`."""
        import torch  # settings are read for help texts too, which are not to wait for it

        return torch.autocast(self.device, torch.bfloat16, enabled=self.precision == "bfloat16")

    def resolve(self) -> str | None:
        if self.precision == "auto":
            import torch

            self.device = device_here(self.device)
            fast = self.device == "cuda" and torch.cuda.is_bf16_supported()
            self.precision = "bfloat16" if fast else "float32"
        return super().resolve()
