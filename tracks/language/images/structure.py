"""The parts of a CLIPModel for interventions and metrics: its layers and its units."""

from torch import nn

from supple.interventions import Layer, Wiring
from supple.networks import Role

FEATURES = "vision_model.post_layernorm"  # what the image encoder's projection reads
PARTS = {"q_proj": "query", "k_proj": "key", "v_proj": "value", "out_proj": "out", "fc1": "mlp", "fc2": "mlp"}


def clip_layers(model: nn.Module) -> tuple[Layer, ...]:
    """Return the layers of a CLIP that have weights: those of the image encoder, then those of the text encoder.

    Each encoder counts depth from its own input. The convolution of the patches is the encoder, and both projections
    are heads. The parts are query, key, value, out and mlp."""
    layers: list[Layer] = []
    for tower, head in (("vision_model", "visual_projection"), ("text_model", "text_projection")):
        inner = model.get_submodule(tower).named_modules(prefix=tower)
        depth = -1
        for name, module in (*inner, (head, model.get_submodule(head))):
            if isinstance(module, (nn.Linear, nn.Conv2d)):
                part = PARTS.get(name.rsplit(".", 1)[-1], "")
                beside = bool(layers) and {part, layers[-1].part} <= {"query", "key", "value"}
                depth += not beside
                role: Role = "head" if name == head else "hidden" if part else "encoder"
                layers.append(Layer(name, module, role, depth, part))
    return tuple(layers)


def clip_units(model: nn.Module) -> tuple[str, ...]:
    """Return the names of the activations in the MLPs of both encoders, images first."""
    names = [name for name, _ in model.named_modules() if name.endswith(".activation_fn")]
    return tuple(sorted(names, key=lambda name: not name.startswith("vision_model.")))


def clip_wiring(model: nn.Module) -> dict[str, Wiring]:
    """Return the wiring of `clip_units`. Each is between the two layers of its MLP."""
    mlps = {unit: unit.removesuffix(".activation_fn") for unit in clip_units(model)}
    return {unit: Wiring((f"{mlp}.fc1",), (f"{mlp}.fc2",)) for unit, mlp in mlps.items()}
