import pytest
import torch

from supple.interventions import make, redraw, snapshot
from tests.interventions.common import exact, learner, normed, slots, update


@pytest.mark.slow
@pytest.mark.parametrize("toward", ["fresh", "initial"])
def test_200_updates_equal_the_formulas_with_a_draw_for_each_and_the_optimizer_state_is_kept(toward):
    target, soft = learner(normed, torch.optim.Adam), make("soft_snp", epsilon=1e-3, toward=toward)
    draws = torch.Generator().manual_seed(0)
    for _ in range(200):
        update(target)
        before, state = snapshot(target.module), slots(target)
        soft.after_update(target)
        goal = redraw(target.module, draws) if toward == "fresh" else target.initial
        expected = {name: 0.999 * before[name] + 0.001 * goal[name] for name in before}
        torch.testing.assert_close(snapshot(target.module), expected, rtol=0, atol=1e-15)
        exact(slots(target), state)
