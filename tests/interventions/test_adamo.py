import pytest
import torch
from torch import nn

from supple.interventions import StackedLinear, learner_for, make, parseval_penalty
from supple.metrics import dfi
from supple.networks.layers import Layer
from supple.networks.optimizers import step


def trained(module, gradient):
    """Return a learner whose parameters have these gradients, with PyTorch's Adam."""
    target = learner_for(module, torch.optim.Adam(module.parameters(), lr=0.1))
    for parameter in module.parameters():
        parameter.grad = torch.full_like(parameter, gradient)
    return target


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4)], ids=str)
def test_the_step_is_adams_along_the_gradient_of_the_task_plus_one_along_that_of_the_deviation(shape):
    module = nn.Sequential(nn.Linear(shape[1], shape[0])).double()
    weight, target = module[0].weight, trained(module, 0.3)
    d_out, d_in = shape
    start = weight.detach().clone().requires_grad_()
    gram = start.T @ start if d_out >= d_in else start @ start.T  # Rosseau et al.
    (gram - torch.eye(len(gram), dtype=torch.float64)).square().sum().backward()
    make("adamo", strength=0.01).before_update(target)
    torch.testing.assert_close(weight.detach(), start.detach() - 0.1 * 0.01 * start.grad)
    assert weight.grad.eq(0.3).all()  # of which alone Adam has moments
    step(target.optimizer)
    torch.testing.assert_close(weight.detach(), start.detach() - 0.1 * 0.01 * start.grad - 0.1)


def test_members_and_kernels_are_matrices_of_their_own_and_a_scope_is_kept():
    stack = trained(nn.Sequential(StackedLinear(2, 4, 3), nn.ReLU(), StackedLinear(2, 3, 2)), 0.0)
    first, last = stack.module[0].weight, stack.module[2].weight.detach().clone()
    want = [w - 0.1 * torch.autograd.grad(parseval_penalty(w), w)[0] for w in first.detach().requires_grad_().unbind()]
    make("adamo", strength=1.0, scope="encoder").before_update(stack)
    torch.testing.assert_close(first.detach(), torch.stack(want).detach())
    assert torch.equal(stack.module[2].weight, last)
    conv = trained(nn.Sequential(nn.Conv2d(2, 3, 3)), 0.0)
    kernel = conv.module[0].weight.detach().reshape(3, 18).requires_grad_()
    want = kernel - 0.1 * torch.autograd.grad(parseval_penalty(kernel), kernel)[0]
    make("adamo", strength=1.0).before_update(conv)
    torch.testing.assert_close(conv.module[0].weight.detach().reshape(3, 18), want.detach())


def test_parts_of_a_fused_layer_whose_weight_is_stored_as_in_out_become_isometries():
    conv1d = pytest.importorskip("transformers.pytorch_utils").Conv1D
    target = trained(nn.Sequential(conv1d(8, 6)), 0.0)
    target.layers = (Layer("0", target.module[0], "head", 0, split=2),)
    pull = make("adamo", strength=0.5)
    for _ in range(300):
        pull.before_update(target)
    assert all(dfi(part) < 1e-6 for part in target.module[0].weight.mT.chunk(2))
    assert make("parseval", strength=1.0).penalty(target) < 1e-6


def test_many_steps_lead_to_an_isometry():
    target = trained(nn.Sequential(nn.Linear(6, 4)), 0.0)
    pull = make("adamo", strength=0.5)
    for _ in range(200):
        pull.before_update(target)
    assert dfi(target.module[0].weight) < 1e-6
