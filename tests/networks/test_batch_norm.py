import pytest
import torch
from torch import nn

from supple.networks import stack_networks
from supple.networks.batch_norm import BatchNorm


def batch(*shape, seed=0):
    return 3 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 2


def drawn(norm, seed=1):
    """Return the layer in float64, with gains, shifts and averages that differ from each other."""
    draws = torch.Generator().manual_seed(seed)
    norm = norm.double()
    with torch.no_grad():
        for tensor in (norm.weight, norm.bias, norm.running_mean, norm.running_var):
            tensor.copy_(torch.rand(tensor.shape, generator=draws, dtype=tensor.dtype) + 0.5)
    return norm


def test_a_pass_that_trains_it_is_that_of_pytorchs_batch_norm():
    ours, theirs, x = drawn(BatchNorm(4)), nn.BatchNorm1d(4, momentum=0.01).double(), batch(7, 4)
    theirs.load_state_dict({**ours.state_dict(), "num_batches_tracked": torch.tensor(0)})
    outputs = [norm(x.requires_grad_()) for norm in (ours, theirs)]
    torch.testing.assert_close(*outputs)
    of = [
        torch.autograd.grad(y.pow(3).sum(), (x, *n.parameters())) for y, n in zip(outputs, (ours, theirs), strict=True)
    ]
    torch.testing.assert_close(*of)
    torch.testing.assert_close({**ours.state_dict(), "num_batches_tracked": torch.tensor(1)}, theirs.state_dict())


def test_all_other_passes_use_the_averages_and_leave_them():
    norm, x = drawn(BatchNorm(4)), batch(7, 4)
    before = {name: value.clone() for name, value in norm.state_dict().items()}
    with torch.no_grad():
        acting = norm(x)
    frozen = norm.requires_grad_(False)(x)
    evaluated = norm.requires_grad_(True).eval()(x)
    plain = (x - norm.running_mean) / (norm.running_var + norm.eps).sqrt() * norm.weight + norm.bias
    for outputs in (acting, frozen, evaluated):
        torch.testing.assert_close(outputs, plain)
    torch.testing.assert_close(dict(norm.state_dict()), before, rtol=0, atol=0)


def test_a_target_can_use_the_statistics_of_its_own_batches():
    norm, other, x = drawn(BatchNorm(4)), drawn(BatchNorm(4)), batch(7, 4)
    norm.requires_grad_(False).own = True
    torch.testing.assert_close(norm(x), other(x))
    assert torch.equal(norm.running_var, other.running_var)
    with torch.no_grad():
        torch.testing.assert_close(norm.eval()(x), other(x))  # averages, as of any other


@pytest.mark.parametrize("after", [None, 1], ids=["plain", "renormalised"])
@pytest.mark.parametrize("shared", [False, True], ids=["own inputs", "one input for all"])
def test_a_member_of_a_stack_is_as_alone(after, shared):
    alone = [drawn(BatchNorm(4, renormalize_after=after), seed) for seed in range(3)]
    stack = stack_networks(alone, lambda members: BatchNorm(4, members, renormalize_after=after).double())
    for seed in range(3):
        x = batch(7, 4, seed=seed) if shared else batch(3, 7, 4, seed=seed)
        outputs = stack(x)
        for member, norm in enumerate(alone):
            torch.testing.assert_close(outputs[member], norm(x if shared else x[member]))
    for name, value in stack.state_dict().items():
        torch.testing.assert_close(value, torch.stack([norm.state_dict()[name] for norm in alone]))


def test_renormalisation_corrects_a_batch_towards_the_averages_once_it_is_warm():
    norm, x = drawn(BatchNorm(4, eps=1e-12, renormalize_after=1)), batch(9, 4)
    first = norm(x)  # as without
    mean, var = x.mean(0), x.var(0, correction=0)
    torch.testing.assert_close(first, (x - mean) / var.sqrt() * norm.weight + norm.bias)
    sigma, average, x = norm.running_var.sqrt(), norm.running_mean.clone(), 40 + batch(9, 4, seed=1)
    outputs = norm(x.requires_grad_())
    mean, std = x.mean(0), x.var(0, correction=0).sqrt()
    r, d = (std / sigma).clamp(1 / 3, 3).detach(), ((mean - average) / sigma).clamp(-5, 5).detach()
    assert (d == 5).all()
    wanted = ((x - mean) / std * r + d) * norm.weight + norm.bias  # Ioffe 2017, Algorithm 1
    torch.testing.assert_close(outputs, wanted)
    torch.testing.assert_close(*(torch.autograd.grad(y.pow(3).sum(), x)[0] for y in (outputs, wanted)))
    torch.testing.assert_close(norm.running_mean, average + 0.01 * (mean.detach() - average))
    torch.testing.assert_close(norm.running_var, sigma**2 + 0.01 * (std.detach() ** 2 - sigma**2))


def test_its_statistics_can_start_over():
    norm = BatchNorm(4, renormalize_after=5)
    start = {name: value.clone() for name, value in norm.state_dict().items()}
    norm(batch(7, 4).float())
    assert norm.passes == 1
    norm.reset_running_stats()
    torch.testing.assert_close(dict(norm.state_dict()), start, rtol=0, atol=0)
