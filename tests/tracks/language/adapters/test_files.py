import errno
import json

import pytest
import torch
from torch import nn

from supple.tracks.language.adapters import adapters, add_task, load_adapters, maker, save_adapters, wrap
from tests.tracks.logs import refusal

pytestmark = pytest.mark.slow

KINDS = ["moram", "seqlora", "inclora", "olora", "moe_lora", "external_router"]


def plain(width: int = 8, dtype: torch.dtype = torch.float32) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, width), nn.ReLU(), nn.Linear(width, 6), nn.Linear(6, 3)).to(dtype).eval()


def trained(kind: str = "moram", dtype: torch.dtype = torch.float32, **params) -> nn.Sequential:
    model, source = plain(dtype=dtype), torch.Generator().manual_seed(1)
    wrap(model, "all-linear", maker(kind, r=3, **params))
    for _ in range(3):
        add_task(model, source)
        for adapter in adapters(model).values():
            nn.init.normal_(adapter.B, generator=source)
    return model


def inputs(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(5, 6, generator=torch.Generator().manual_seed(2)).to(dtype)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_loaded_adapters_compute_the_same_bit_for_bit(tmp_path, kind, dtype):
    model, other = trained(kind, dtype), plain(dtype=dtype)
    save_adapters(model, tmp_path / "adapters")
    assert load_adapters(other, tmp_path / "adapters") == ["0", "2"]
    with torch.no_grad():
        assert torch.equal(other(inputs(dtype)), model(inputs(dtype)))
    for name, adapter in adapters(other).items():
        assert (adapter.params, adapter.sizes) == (adapters(model)[name].params, adapters(model)[name].sizes)
    trainable = [{n for n, p in m.named_parameters() if p.requires_grad} for m in (model, other)]
    assert trainable[0] == trainable[1]
    add_task(other)  # and it goes on
    other(inputs(dtype)).sum().backward()


def test_the_files_are_these_two_and_say_what_they_hold(tmp_path):
    save_adapters(trained(k=2), tmp_path)
    save_adapters(trained(k=5), tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["adapters.json", "adapters.safetensors"]
    body = json.loads((tmp_path / "adapters.json").read_text())
    assert (body["kind"], body["tasks"], body["params"]["k"]) == ("moram", 3, 5)
    assert body["layers"]["0"] == {"inputs": 6, "outputs": 8, "atoms": [3, 3, 3]}


def test_other_architectures_and_weights_are_refused(tmp_path):
    save_adapters(trained(), tmp_path)
    deeper, moved = nn.Sequential(plain()), plain()
    nn.init.normal_(moved[0].weight)
    assert "another architecture: Sequential has no Linear '0'" in refusal(load_adapters, deeper, tmp_path)
    assert "'0' of Sequential is 6 → 9, theirs 6 → 8" in refusal(load_adapters, plain(9), tmp_path)
    assert "trained on other weights" in refusal(load_adapters, moved, tmp_path)
    assert not adapters(moved)
    assert all(p.requires_grad for p in moved.parameters())
    load_adapters(moved, tmp_path, check_base=False)
    assert "has adapters already" in refusal(load_adapters, moved, tmp_path)


@pytest.mark.parametrize("kind", ["safetensors", "json"])
def test_a_missing_file_is_refused_by_name(tmp_path, kind):
    save_adapters(trained(), tmp_path)
    (tmp_path / f"adapters.{kind}").unlink()
    assert f"adapters.{kind}: missing" in refusal(load_adapters, plain(), tmp_path)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("adapters.safetensors", lambda raw: raw[:-20]),
        ("adapters.safetensors", lambda raw: raw[:-1] + bytes([raw[-1] ^ 1])),
        ("adapters.json", lambda _: b"{"),
        ("adapters.json", lambda raw: raw.replace(b"supple adapters", b"other")),
        ("adapters.json", lambda raw: raw.replace(b'"k": 16', b'"k": -1')),
        ("adapters.json", lambda raw: raw.replace(b'"moram"', b'"inclora"')),
    ],
)
def test_damaged_files_are_refused_in_one_line_and_the_model_stays(tmp_path, name, change):
    save_adapters(trained(), tmp_path)
    raw = (tmp_path / name).read_bytes()
    assert change(raw) != raw
    (tmp_path / name).write_bytes(change(raw))
    model = plain()
    assert refusal(load_adapters, model, tmp_path).startswith(f"{tmp_path}/adapters.")
    assert not adapters(model)
    assert all(p.requires_grad for p in model.parameters())


def test_a_failed_write_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "disk full")

    monkeypatch.setattr("supple.engine.storage.files.sync", full)
    with pytest.raises(OSError, match="disk full"):
        save_adapters(trained(), tmp_path)
    assert not list(tmp_path.iterdir())
