"""The published benchmarks by name, as presets of `supple train vision NAME`."""

from supple.engine.kinds import Preset, add

KIND = "vision"
# The measures of reports. ACC is the test accuracy in the end, as a mean over all tasks so far.
ONLINE, TEST, ACC, FINAL = MEASURES = "online accuracy", "test accuracy", "ACC", "final test accuracy"

# FIRE, Appendix E.1 and Table 2
_FIRE = {
    "batch_size": 256, "learning_rate": 1e-3, "warmup": 0.1, "max_grad_norm": 0.5, "epochs": 100,
    "fresh_optimizer": True,
    "standardize": True, "dataset": "cifar-10", "network": "resnet18", "eval_epochs": 1.0, "measure_every": 1000,
    "checkpoint_every": 5000,
}  # fmt: skip
# Lillo & Cheney (2025, arXiv 2509.22562), Table E1
_PAIRS = {"stream": "pairs", "images_per_class": 600, "network": "cnn", "batch_size": 100, "epochs": 10, "tasks": 500}
_LABELS = {"stream": "random-labels", "images": 1200, "tasks": 50, "epochs": 400, "batch_size": 16}
# Lillo & Cheney (2025), Sections 2 to 4 and Appendices B, D
_SPLIT = {
    "dataset": "cifar-100", "stream": "split", "tasks": 20, "classes_per_task": 5, "network": "convnet",
    "epochs": 100, "batch_size": 32, "replay": 10_000, "replay_per_task": 500, "measure_every": 5000,
}  # fmt: skip

add(
    Preset(
        "permuted-mnist",
        "500 permutations of the pixels of 10,000 MNIST images, one pass each (Lillo & Cheney 2025, Table E1)",
        KIND,
        {"stream": "permuted", "images": 10_000, "tasks": 500, "epochs": 1, "batch_size": 16},
    ),
    Preset(
        "random-label-mnist", "50 random labellings of 1,200 MNIST images, 400 passes each (Table E1)", KIND, _LABELS
    ),
    Preset(
        "random-label-cifar",
        "the same with CIFAR-10 and a CNN (Table E1)",
        KIND,
        {**_LABELS, "dataset": "cifar-10", "network": "cnn"},
    ),
    Preset(
        "cifar-5+1",
        "30 tasks of 5 classes and of 1 class of CIFAR-100 in turn, 780 updates each (Table E1)",
        KIND,
        {
            "dataset": "cifar-100",
            "stream": "alternating",
            "tasks": 30,
            "classes_per_task": 5,
            "network": "cnn",
            "images_per_class": 500,
            "batch_size": 32,
            "updates_per_task": 780,
            "measure_every": 780,
        },
    ),
    Preset(
        "continual-imagenet",
        "500 pairs of ImageNet classes at 32×32, 10 passes each (Table E1)",
        KIND,
        {"dataset": "imagenet-32", **_PAIRS},
    ),
    Preset(
        "split-cifar-100",
        "20 tasks of 5 classes of CIFAR-100 with experience replay (Lillo & Cheney 2025, Sections 2 and 3)",
        KIND,
        _SPLIT,
        leads=ACC,
    ),
    Preset(
        "shock",
        "the same with a shock of all pre-activations every tenth epoch (Section 4, Appendix D)",
        KIND,
        {**_SPLIT, "shock_every": 10, "eval_epochs": 1.0},
    ),
    Preset(
        "warm-start",
        "10 % of CIFAR-10 for 1,000 epochs, then all for 100, ResNet-18 (FIRE, Section 4.1)",
        KIND,
        {**_FIRE, "stream": "chunks", "shares": (0.1, 1.0), "tasks": 2, "first_epochs": 1000},
        leads=FINAL,
    ),
    Preset(
        "continual",
        "CIFAR-10 in ten stages, from 10 % to all, 100 epochs each (FIRE, Section 4.1)",
        KIND,
        {**_FIRE, "stream": "chunks", "shares": tuple(k / 10 for k in range(1, 11)), "tasks": 10},
        leads=TEST,
    ),
    Preset(
        "class-incremental",
        "CIFAR-100 in 20 phases of 5 new classes, all seen so far in each, ViT-Tiny (FIRE, Section 4.1)",
        KIND,
        {**_FIRE, "dataset": "cifar-100", "network": "vit-tiny", "stream": "classes", "tasks": 20},
        leads=TEST,
    ),
)
