"""Running statistics of batch normalisation that are those of the recent inputs again."""

import torch
from torch import nn

from supple.interventions import Learner, learner_for
from supple.networks import renew_statistics_
from supple.networks.batch_norm import BatchNorm


def images() -> Learner:
    layers = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5), nn.BatchNorm1d(5)
    x = torch.randn(32, 3, 6, 6)
    return learner_for(nn.Sequential(*layers, nn.Dropout(), nn.Linear(5, 2)), probe=lambda: (x,), loss=lambda: x.sum())


def test_one_pass_gives_what_training_passes_would_converge_to() -> None:
    torch.manual_seed(0)
    learner = images()
    module, (x,) = learner.module, learner.probe()
    before, state = module.state_dict().keys(), torch.get_rng_state()
    written = renew_statistics_(learner)
    assert written == [f"{layer}.running_{what}" for layer in (1, 5) for what in ("mean", "var")]
    assert torch.equal(torch.get_rng_state(), state)
    assert module.training
    assert module.state_dict().keys() == before
    features = module[0](x)
    torch.testing.assert_close(module[1].running_mean, features.mean((0, 2, 3)))
    torch.testing.assert_close(module[1].running_var, features.transpose(0, 1).flatten(1).var(1))
    behind = module.eval()[:5](x)  # the second layer's are those behind the first one's new statistics
    torch.testing.assert_close(module[5].running_mean, behind.mean(0))
    torch.testing.assert_close(module[5](behind).std(0), torch.ones(5), rtol=1e-3, atol=0)


def test_members_of_a_stack_have_their_own_and_a_follower_can_be_renewed() -> None:
    x = torch.randn(3, 64, 4) * torch.tensor([1.0, 2.0, 3.0])[:, None, None]
    module = nn.Sequential(BatchNorm(4, members=3))
    follower, (layer,) = nn.Sequential(BatchNorm(4, members=3)), module
    learner = learner_for(nn.Linear(4, 1), probe=lambda: (x,), loss=lambda: x.sum())
    assert renew_statistics_(learner, follower) == ["0.running_mean", "0.running_var"]
    torch.testing.assert_close(follower[0].running_var, x.var(1))
    assert torch.equal(layer.running_var, torch.ones(3, 4))


def test_members_that_share_their_inputs_have_the_variance_of_one_alone() -> None:
    x = torch.randn(8, 4)
    module = nn.Sequential(BatchNorm(4, members=2))
    renew_statistics_(learner_for(nn.Linear(4, 1), probe=lambda: (x,), loss=lambda: x.sum()), module)
    torch.testing.assert_close(module[0].running_var, x.var(0).expand(2, 4))


def test_without_data_or_batch_normalisation_nothing_is_written() -> None:
    learner = images()
    learner.probe = lambda: None
    assert renew_statistics_(learner) == []
    plain = learner_for(nn.Linear(4, 1), probe=lambda: (torch.ones(2, 4),), loss=lambda: torch.zeros(()))
    assert renew_statistics_(plain) == []
