import torch
from torch import Tensor, nn

from supple.interventions import redraw
from supple.networks.redraw import find_equal, may_be_alike


def network() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(12, 4), nn.PReLU())


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


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


def test_the_generator_decides_the_draw_and_advances_and_nothing_else_does():
    module, source = network(), generator(1)
    state = torch.get_rng_state()
    first, second = (redraw(module, source)["0.weight"] for _ in range(2))
    assert torch.equal(first, redraw(module, generator(1))["0.weight"])
    assert not torch.equal(first, second)
    assert torch.equal(torch.get_rng_state(), state)


def test_without_a_generator_the_global_one_advances_by_one_number():
    module = network()
    torch.manual_seed(3)
    redraw(module)
    after = torch.get_rng_state()
    torch.manual_seed(3)
    torch.randint(2**62, ())
    assert torch.equal(torch.get_rng_state(), after)


def test_a_part_with_its_own_initialisation_is_reset_after_the_layers_in_it():
    class Orthogonal(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.loose = nn.Linear(6, 6), nn.Parameter(torch.ones(2))

        def reset_parameters(self) -> None:
            nn.init.orthogonal_(self.a.weight)
            nn.init.constant_(self.loose, 3.0)

    drawn = redraw(Orthogonal(), generator())
    torch.testing.assert_close(drawn["a.weight"] @ drawn["a.weight"].T, torch.eye(6))
    assert drawn["loose"].tolist() == [3.0, 3.0]


def test_a_tied_parameter_has_one_name_and_parameters_of_no_layer_none():
    module = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4, bias=False))
    module[1].weight = module[0].weight
    module.register_parameter("scale", nn.Parameter(torch.ones(())))
    assert redraw(module, generator()).keys() == {"0.weight", "0.bias"}


def test_a_layer_that_was_partly_set_to_zero_or_scaled_has_another_distribution():
    layer, table = nn.Linear(8, 8), nn.Embedding(12, 8)
    layer.weight.data[:4] = 0
    table.weight.data *= 0.02
    for part in (layer, table):
        assert not may_be_alike(redraw(part)["weight"], part.weight)


def test_constants_count_as_drawn() -> None:
    first: dict[str, Tensor] = {"drawn": torch.tensor([1.0, 2.0]), "zeros": torch.zeros(3), "kept": torch.arange(3.0)}
    assert find_equal(first, {**first, "drawn": torch.tensor([1.0, 3.0])}) == ["kept"]
