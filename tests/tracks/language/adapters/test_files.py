import json

import pytest
import torch
from torch import nn

from supple.tracks.language.adapters import adapters, adapters_by_kind, add_task, load_adapters, save_adapters
from tests.tracks.language.adapters.models import adapted, inputs, plain
from tests.tracks.logs import refusal

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", adapters_by_kind.names())
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_loaded_adapters_compute_the_same_bit_for_bit(tmp_path, kind, dtype):
    model, other, x = adapted(kind, dtype=dtype), plain(dtype), inputs(5).to(dtype)
    save_adapters(model, tmp_path / "adapters")
    assert load_adapters(other, tmp_path / "adapters") == ["0", "2"]
    assert torch.equal(other(x), model(x))
    for name, adapter in adapters(other).items():
        assert (adapter.params, adapter.sizes) == (adapters(model)[name].params, adapters(model)[name].sizes)
    trainable = [{n for n, p in m.named_parameters() if p.requires_grad} for m in (model, other)]
    assert trainable[0] == trainable[1]
    add_task(other)  # and it goes on
    other(x).sum().backward()


def test_the_files_are_these_two_and_say_what_they_hold(tmp_path):
    save_adapters(adapted(k=2), tmp_path)
    save_adapters(adapted(k=5), tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["adapters.json", "adapters.safetensors"]
    body = json.loads((tmp_path / "adapters.json").read_text())
    assert (body["kind"], body["tasks"], body["params"]["k"]) == ("moram", 3, 5)
    assert body["layers"]["0"] == {"inputs": 6, "outputs": 8, "atoms": [4, 4, 4]}


def test_other_architectures_and_weights_are_refused(tmp_path):
    save_adapters(adapted(), tmp_path)
    moved = plain()
    nn.init.normal_(moved[0].weight)
    assert "Sequential has no Linear '0'" in refusal(load_adapters, nn.Sequential(plain()), tmp_path)
    for other in (plain(width=9), moved):
        assert "trained on other weights" in refusal(load_adapters, other, tmp_path)
    assert not adapters(moved)
    load_adapters(moved, tmp_path, check_base=False)
    assert "has adapters already" in refusal(load_adapters, moved, tmp_path)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("adapters.json", None),
        ("adapters.safetensors", lambda raw: raw[:-1] + bytes([raw[-1] ^ 1])),
        ("adapters.json", lambda raw: raw.replace(b"supple adapters", b"other")),
        ("adapters.json", lambda raw: raw.replace(b'"k": 16', b'"k": -1')),
        ("adapters.json", lambda raw: raw.replace(b'"moram"', b'"inclora"')),
    ],
)
def test_missing_and_damaged_files_are_refused_in_one_line_and_the_model_stays(tmp_path, name, change):
    save_adapters(adapted(), tmp_path)
    raw = (tmp_path / name).read_bytes()
    (tmp_path / name).unlink()
    if change:
        (tmp_path / name).write_bytes(change(raw))
    model = plain()
    assert refusal(load_adapters, model, tmp_path).startswith(f"{tmp_path}/adapters.")
    assert not adapters(model)
    assert all(p.requires_grad for p in model.parameters())
