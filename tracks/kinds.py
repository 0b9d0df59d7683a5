"""The rows of these tracks in the registry of kinds of runs."""

from supple.engine.kinds import Kind, add

from .language import presets as language
from .vision import presets as vision

__all__ = ["language", "vision"]  # which file their own rows

LANGUAGE = "supple.tracks.language"

add(
    Kind(
        "vision",
        "classifiers through the changing tasks of a benchmark, many seeds at once",
        settings="supple.tracks.vision.settings:VisionSettings",
        build="supple.tracks.vision.work:build",
        report="supple.tracks.vision.report:VISION",
        fork_at_task=1,
        arms=("none", "fire", "snp", "reset"),
        measures=vision.MEASURES,
        tuned_by="online_accuracy",
        benchmark=True,
    ),
    Kind(
        "pretrain",
        "a GPT on one corpus, then on others, from a state of the first",
        settings=f"{LANGUAGE}.pretrain.settings:PretrainSettings",
        build=f"{LANGUAGE}.pretrain.work:build",
        report=f"{LANGUAGE}.report:PRETRAIN",
        measures=("final val loss",),
        tuned_by="-val_loss",
        shared=True,
        forking=f"{LANGUAGE}.pretrain.second_phases:Starts",
    ),
    Kind(
        "sft",
        "supervised fine-tuning of a causal language model, and what it forgets",
        settings=f"{LANGUAGE}.finetune.settings:SFTSettings",
        build=f"{LANGUAGE}.finetune.work:build",
        report=f"{LANGUAGE}.report:SFT",
        tuned_by="-learn_loss",
    ),
    Kind(
        "clip",
        "a small image–text model on captions",
        settings=f"{LANGUAGE}.images.settings:ClipSettings",
        build=f"{LANGUAGE}.images.work:ClipWork",
        report=f"{LANGUAGE}.report:CLIP",
        tuned_by="accuracy",
    ),
    Kind(
        "continual",
        "one task after the other with adapters (MoRAM, LoRA, …)",
        settings=f"{LANGUAGE}.continual.settings:ContinualSettings",
        build=f"{LANGUAGE}.continual.work:build",
        report=f"{LANGUAGE}.report:CONTINUAL",
        measures=("OP", "BWT, eq. 10", "Transfer", "Average"),
        tuned_by="score",
    ),
    Kind(
        "linear",
        "deep linear networks, one task after the other",
        settings="supple.tracks.linear.settings:LinearSettings",
        build="supple.tracks.linear.work:LinearWork",
        report="supple.tracks.linear.report:LINEAR",
        measures=("final excess loss", "mean excess loss in the last task", "final forgetting"),
        tuned_by="-loss",
    ),
)
