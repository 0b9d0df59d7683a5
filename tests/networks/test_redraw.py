import torch
from torch import Tensor, nn

from supple.interventions import redraw
from supple.networks.redraw import find_equal, select_alike


def network() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(12, 4), nn.PReLU())


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


class OrthogonalStack(nn.Module):
    """A part with an initialisation of its own, over layers that have theirs too."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)
        self.loose = nn.Parameter(torch.ones(2))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.orthogonal_(self.a.weight)
        nn.init.constant_(self.loose, 3.0)


def test_a_redraw_equals_building_the_network_again():
    # The one number that the generator gives is the seed of the new network.
    seed = int(torch.randint(2**62, (), generator=generator()))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        expected = dict(network().named_parameters())
    drawn = redraw(network(), generator())
    assert drawn.keys() == expected.keys()
    for name, value in drawn.items():
        assert torch.equal(value, expected[name]), name


def test_a_redraw_leaves_the_module_and_the_global_generator_alone():
    module = network()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    state = torch.get_rng_state()
    redraw(module, generator())
    assert torch.equal(torch.get_rng_state(), state)
    for name, tensor in module.state_dict().items():
        assert torch.equal(tensor, before[name]), name


def test_the_generator_decides_the_draw_and_advances():
    module, source = network(), generator(1)

    def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
        return torch.equal(a["0.weight"], b["0.weight"])

    first, second = redraw(module, source), redraw(module, source)
    assert same(first, redraw(module, generator(1)))
    assert not same(first, second)


def test_without_a_generator_the_global_one_advances_by_one_number():
    module = network()
    torch.manual_seed(3)
    redraw(module)
    after = torch.get_rng_state()
    torch.manual_seed(3)
    torch.randint(2**62, ())
    assert torch.equal(torch.get_rng_state(), after)


def test_a_part_with_its_own_initialisation_is_reset_after_the_layers_in_it():
    drawn = redraw(OrthogonalStack(), generator())
    torch.testing.assert_close(drawn["a.weight"] @ drawn["a.weight"].T, torch.eye(6))
    assert drawn["loose"].tolist() == [3.0, 3.0]
    assert drawn.keys() == {"a.weight", "a.bias", "b.weight", "b.bias", "loose"}


def test_a_tied_parameter_has_one_name_and_parameters_of_no_layer_none():
    module = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4, bias=False))
    module[1].weight = module[0].weight
    module.register_parameter("scale", nn.Parameter(torch.ones(())))
    assert redraw(module, generator()).keys() == {"0.weight", "0.bias"}


def test_a_layer_of_which_a_part_was_set_to_zero_has_another_distribution():
    layer = nn.Linear(8, 8)
    layer.weight.data[:4] = 0
    assert "weight" not in select_alike(redraw(layer), dict(layer.named_parameters()))


def test_small_layers_of_another_size_have_another_distribution():
    table = nn.Embedding(12, 8)
    table.weight.data *= 0.02
    assert not select_alike(redraw(table), dict(table.named_parameters()))


def test_constants_count_as_drawn() -> None:
    first: dict[str, Tensor] = {"drawn": torch.tensor([1.0, 2.0]), "zeros": torch.zeros(3), "kept": torch.arange(3.0)}
    assert find_equal(first, {**first, "drawn": torch.tensor([1.0, 3.0])}) == ["kept"]
