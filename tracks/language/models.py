"""Causal language models of `transformers`: loading, saving, and their parts for interventions and metrics."""

import importlib.util
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

from supple.engine.storage import files
from supple.registry import one_line
from supple.registry.cache import cache_folder
from supple.registry.errors import RunError, UsageError

T = TypeVar("T")
SMOLLM2 = "smollm2"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
CONVERTED = "SmolLM2-135M-Instruct"  # folder beside it, in transformers' layout
HUB = re.compile(r"[\w.-]+/[\w.-]+")
FORMS = "a folder in transformers' layout, a .gguf file, smollm2, llama:WIDTHxLAYERS, or OWNER/NAME on the hub"


@dataclass(frozen=True)
class LanguageModel:
    """A causal language model with float32 weights, in evaluation mode, and its tokenizer (both of `transformers`).

    source: A description of the model and its origin."""

    model: nn.Module
    tokenizer: Any
    source: str

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def pad(self) -> int:
        """The token for padding. It does not matter which one it is, because padding is masked."""
        tokenizer = self.tokenizer
        return int(next((i for i in (tokenizer.pad_token_id, tokenizer.eos_token_id) if i is not None), 0))


def load_model(name: str, device: str = "cpu", seed: int = 0) -> LanguageModel:
    """Return a causal language model by its name.

    name: A folder in transformers' layout. Or a .gguf file, which is dequantised. Or `smollm2`, the result of `supple
    fetch smollm2`, which is dequantised once and cached beside it. Or `llama:WIDTHxLAYERS`, with random weights drawn
    from `seed`. Or OWNER/NAME on the Hugging Face hub, the only one that may need the network (unless its files are in
    the hub's own cache).

    Attention is PyTorch's scaled_dot_product_attention. Second derivatives need its `MATH` backend, which
    `metrics.hessian_eigenvalues` selects.

    Raises UsageError for a name that is none of these, and RunError for a model that cannot be loaded.
    """
    require("transformers")
    path, source = Path(name).expanduser(), name
    if name == SMOLLM2:
        model, tokenizer = read_named(str(_find_smollm2()), _pretrained, "a causal language model", FORMS)
        source = "SmolLM2-135M-Instruct (GGUF Q4_1, dequantised to float32)"
    elif name.startswith("llama:"):
        from .tiny_llama import fresh_llama

        (model, tokenizer), source = fresh_llama(name, seed), f"{name}, random weights of seed {seed}"
    elif path.suffix == ".gguf" and path.is_file():
        (model, tokenizer), source = _read_gguf(path), f"{path.name}, dequantised to float32"
    else:
        model, tokenizer = read_named(name, _pretrained, "a causal language model", FORMS)
        source = name if path.is_dir() else f"{name} from the hub"
    return LanguageModel(model.float().to(device).eval(), tokenizer, source)


def check_context(language_model: LanguageModel, name: str, max_length: int, max_new_tokens: int) -> None:
    """Raise UsageError if a prompt and its answer do not fit the model's positions.

    Args:
        language_model: The model.
        name: What the user calls it, for the message.
        max_length: Most tokens of a prompt.
        max_new_tokens: Most tokens of a generated answer.
    """
    context = getattr(language_model.model.config, "max_position_embeddings", None)
    if context is not None and max_length + max_new_tokens > context:
        raise UsageError(
            f"--max-length {max_length} and --max-new-tokens {max_new_tokens} are more than the context of {name}, "
            f"{context} tokens"
        )


def save_model(language_model: LanguageModel, folder: Path) -> None:
    """Write model and tokenizer in transformers' layout (safetensors), for `load_model` and other programs.

    The folder appears completely or not at all. An existing one is replaced."""
    with files.atomic_folder(folder) as temporary, silence_transformers():
        language_model.model.save_pretrained(temporary)  # type: ignore[operator]
        language_model.tokenizer.save_pretrained(temporary)


# -- files ---------------------------------------------------------------------------------------------------------


def require(package: str, purpose: str = "a language model of transformers") -> None:
    """Raise RunError for a missing package, with the command that installs it."""
    if importlib.util.find_spec(package) is None:
        raise RunError(f"{purpose} needs {package}: pip install 'supple[language]'")


def is_on_hub(name: str) -> bool:
    """Return whether a name means a model on the hub, and not a path that does not exist."""
    return HUB.fullmatch(name) is not None and not name.startswith(".") and not Path(name).parent.exists()


def _read_gguf(file: Path) -> tuple[nn.Module, Any]:
    """Return (model, tokenizer) of a .gguf file, without the network."""
    with read_safely(file, "a causal language model"):
        require("gguf", "a .gguf file")
        # its weights come as float32, but it would refuse to be saved; the progress bar is no business of ours
        with redirect_stderr(StringIO()):
            model, tokenizer = _pretrained(str(file.parent), local_files_only=True, gguf_file=file.name)
        model.hf_quantizer.remove_quantization_config(model)  # type: ignore[union-attr, operator]
        return model, tokenizer


def read_named(name: str, read: Callable[..., T], what: str, forms: str) -> T:
    """Return `read(path or name, local_files_only=…)` of a folder in transformers' layout, or of a model on the hub.

    Raises UsageError for another name, and RunError for a model that cannot be read."""
    path = Path(name).expanduser()
    if path.is_dir():
        with read_safely(path, what):
            return read(str(path), local_files_only=True)
    if is_on_hub(name):
        return read_from_hub(name, read)
    raise UsageError(f"no such model: {name!r} (a model is {forms})")


@contextmanager
def read_safely(path: Path, what: str) -> Iterator[None]:
    """Raise RunError for whatever is raised while a file or a folder in transformers' layout is read in this block.

    Raises UsageError for another folder."""
    if path.is_dir() and not (path / "config.json").is_file():
        raise UsageError(f"{path} is no model in transformers' layout: it has no config.json")
    try:
        yield
    except (RunError, UsageError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # transformers raises anything for bad files, and Rust's panics are no Exception
        raise RunError(f"{path}: not {what} that can be read: {one_line(error)}") from error


def read_from_hub(name: str, read: Callable[..., T]) -> T:
    """Return `read(name, local_files_only=…)`, from the hub's own cache or over the network.

    Raises RunError, which explains how to use a local path, if the model is not available. UsageErrors pass."""
    from huggingface_hub import HfApi

    try:
        try:
            return read(name, local_files_only=True)
        except UsageError:
            raise
        except (OSError, ValueError):
            HfApi().model_info(name, timeout=10.0)  # without a network this fails at once, downloads only after minutes
        return read(name, local_files_only=False)
    except UsageError:
        raise
    except Exception as error:  # of whichever HTTP library the hub's client uses
        raise RunError(
            f"{name} could not be loaded from the hub ({one_line(error)}); without a network give the path of a "
            "folder with its config.json, safetensors, tokenizer and preprocessor files, or of a .gguf file"
        ) from error


def model_type(name: str) -> str:
    """Return the architecture of a folder or of a model on the hub, in transformers' words, such as llama or clip.

    It is "" for any other name, and for a folder that does not have this entry. Raises RunError if a model is not
    available from the hub.
    """
    if is_on_hub(name):
        require("transformers")
        from transformers import AutoConfig

        return str(read_from_hub(name, AutoConfig.from_pretrained).model_type)
    try:
        config = json.loads((Path(name).expanduser() / "config.json").read_bytes())
    except (OSError, ValueError):
        return ""
    return str(config.get("model_type", "")) if isinstance(config, dict) else ""


def _pretrained(name: str, **where: Any) -> tuple[nn.Module, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    with silence_transformers():
        tokenizer = AutoTokenizer.from_pretrained(name, **where)
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            name, dtype=torch.float32, attn_implementation="sdpa", output_loading_info=True, **where
        )
    model, info = loaded
    if missing := sorted(info["missing_keys"]):  # which transformers would leave at random values
        raise ValueError(f"{len(missing)} weights are missing, such as {missing[0]}")
    return model, tokenizer


def _find_smollm2() -> Path:
    """Return the folder of SmolLM2, which is made from its GGUF file if necessary (half a minute)."""
    home = cache_folder() / SMOLLM2
    folder = home / CONVERTED
    if not (folder / "config.json").is_file():
        if not (home / GGUF).is_file():
            raise UsageError(f"smollm2 is not in {home}: fetch it with `supple fetch smollm2`")
        model, tokenizer = _read_gguf(home / GGUF)
        save_model(LanguageModel(model, tokenizer, SMOLLM2), folder)
    return folder


@contextmanager
def silence_transformers() -> Iterator[None]:
    """Silence the progress bars and log messages of transformers."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
