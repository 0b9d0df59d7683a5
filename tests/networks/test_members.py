"""Draws for the networks of a stack are those of separate runs."""

import pytest
import torch

from supple.networks.members import normal_like


def generator(seed):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("networks", [1, 2])
def test_the_noise_of_a_seed_is_that_of_its_run_alone_for_all_its_networks_at_once(networks):
    tensor = torch.empty(3 * networks, 5, 7, dtype=torch.float64)
    together = normal_like(tensor, [generator(seed) for seed in range(3)])
    for seed in range(3):
        alone = normal_like(torch.empty(networks, 5, 7, dtype=torch.float64), generator(seed))
        assert torch.equal(together[seed * networks : (seed + 1) * networks], alone)
