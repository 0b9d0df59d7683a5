"""Where "From lazy to rich" (Dominé et al., 2025) prints something that does not hold, and what does.

Each test writes the printed formula or claim out and holds it against integration of the gradient flow, sampling or
algebra. The formula of the library (or the corrected one) passes the same check. Table: docs/results/linear/errors.csv.
Slips within a derivation whose result is right (a sign in eq. 87, a factor in 103 and 161, names in 164 to 166) are not
among them.
"""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from supple.tracks.linear import (
    Exact,
    aligned_init,
    balance,
    balance_residual,
    balanced_init,
    converged_norms,
    converged_quadrants,
    exact_qq,
    expected_balance,
    gradient_flow,
    gram,
    input_noise_loss,
    ntk,
    ntk_distance,
    quadrants,
    rsm_input,
    rsm_output,
    semantic_hierarchy,
    singular_values,
    transition,
)
from supple.tracks.linear.figures.runs import qq
from supple.tracks.linear.weights import singular_pair

Array = np.ndarray


def relative(computed: Array, expected: Array) -> float:
    return float(np.linalg.norm(computed - expected) / np.linalg.norm(expected))


def section_4(W1: Array, W2: Array, sigma: Array, lam: float) -> tuple[Array, ...]:
    """Ũ, Ṽ, S̃_λ, G + HG, G − HG, B and C of the paper, for full-rank Σyx and N_h = min(N_i, N_o)."""
    U, s, Vt = np.linalg.svd(sigma, full_matrices=False)
    s_lam = np.hypot(s, lam / 2)
    H = np.sign(lam) * np.sqrt((s_lam - s) / (s_lam + s))
    plus, minus = np.stack([1 + H, 1 - H]) / np.sqrt(1 + H**2)
    in_U, in_V = W2.T @ U, W1 @ Vt.T
    return U, Vt.T, s_lam, plus, minus, in_U * plus + in_V * minus, in_U * minus - in_V * plus


def network(lam: float, *sizes: int) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(0)
    return *balanced_init(lam, *sizes, rng=rng), rng.normal(size=(sizes[2], sizes[0]))


@pytest.mark.parametrize(("n_in", "n_out"), [(5, 3), (3, 5)])
@pytest.mark.parametrize("lam", [-2.0, 2.0])
def test_equation_15_needs_twice_the_exponent_in_its_last_term(n_in: int, n_out: int, lam: float) -> None:
    """(e^{λ⊥t/τ} − I)/λ⊥ is printed for (e^{2λ⊥t/τ} − I)/(2λ⊥), and so in B.4 and B.5 (eqs. 58–82). The proof, B.5.1,
    does not see it: from eq. 112 to 113, e^{λ⊥t/τ} turns into its square."""
    W1, W2, sigma = network(lam, n_in, 3, n_out)
    U, V, s_lam, plus, minus, B, C = section_4(W1, W2, sigma, lam)
    t, perp = 0.7, np.sign(n_out - n_in) * lam / 2
    grow, fall = np.exp(s_lam * t), np.exp(-s_lam * t)
    across_U, across_V = np.eye(n_out) - U @ U.T, np.eye(n_in) - V @ V.T
    DDt = W2.T @ across_U @ W2 + W1 @ across_V @ W1.T
    Z1 = V * minus * grow @ B.T / 2 - V * plus * fall @ C.T / 2 + np.exp(perp * t) * across_V @ W1.T
    Z2 = U * plus * grow @ B.T / 2 + U * minus * fall @ C.T / 2 + np.exp(perp * t) * across_U @ W2
    Z = np.concatenate([Z1, Z2])

    def theorem_4_3(last: float) -> Array:
        """Eqs. 13–15 with this scalar between D and Dᵀ."""
        A = np.eye(3) + B * (grow**2 - 1) / (4 * s_lam) @ B.T - C * (fall**2 - 1) / (4 * s_lam) @ C.T + last * DDt
        return Z @ np.linalg.solve(A, Z.T)

    right = qq(*gradient_flow(W1, W2, sigma, [t]))[0]
    assert relative(theorem_4_3(math.expm1(2 * perp * t) / (2 * perp)), right) < 1e-8
    assert relative(theorem_4_3(math.expm1(perp * t) / perp), right) > 1e-3
    assert relative(exact_qq(W1, W2, sigma, [t])[0], right) < 1e-8


def test_equation_77_needs_twice_the_exponent_in_the_term_with_c() -> None:
    """Eqs. 77 and 82 print (e^{−S̃_λt/τ} − I)/(4S̃_λ), eq. 81 rightly e^{−2S̃_λt/τ}. N_i = N_o: no other term."""
    W1, W2, sigma = network(1.0, 3, 3, 3)
    U, V, s_lam, plus, minus, B, C = section_4(W1, W2, sigma, 1.0)
    t, fall = 0.4, np.exp(-s_lam * 0.4)
    E = np.linalg.solve(B, np.eye(3)).T * fall  # B⁻ᵀ e^{−S̃_λ t}
    CE = C.T @ E
    Z = np.concatenate([V * minus - V * plus * fall @ CE, U * plus + U * minus * fall @ CE]) / 2
    right = qq(*gradient_flow(W1, W2, sigma, [t]))[0]

    def stable(power: int) -> Array:
        middle = E.T @ E + (np.diag(1 - fall**2) / s_lam - CE.T * (fall**power - 1) / s_lam @ CE) / 4
        return Z @ np.linalg.solve(middle, Z.T)

    assert relative(stable(2), right) < 1e-8
    assert relative(stable(1), right) > 1e-2


def test_a_large_start_at_lambda_zero_learns_hyperbolically_not_exponentially() -> None:
    """A.4 has exponential dynamics for s(0) → ∞. With s̃ as it is, γ → 2s(0)t / (1 + 2s(0)t); only a target that stays
    as near to s(0) would be approached exponentially."""
    start, scaled_time = 1e6, np.linspace(0.2, 5, 20)
    gamma = transition(scaled_time / start, 1.0, start, 0.0)
    assert_allclose(gamma, 2 * scaled_time / (1 + 2 * scaled_time), rtol=1e-4)
    rates = -np.log1p(-gamma) / scaled_time  # one number, were it an exponential
    assert rates.max() > 3 * rates.min()


@pytest.mark.parametrize("lam", [-3.0, 2.0])
def test_equations_174_and_175_exchange_the_two_norms(lam: float) -> None:
    """As does the main text, "Representation robustness": with λ > 0 the second layer is the large one."""
    W1, W2, sigma = network(lam, 3, 3, 3)
    norms = [float(np.square(W[0]).sum()) for W in gradient_flow(W1, W2, sigma, [60.0])]
    both = np.hypot(lam, 2 * np.linalg.svd(sigma, compute_uv=False))
    printed = [(both + lam).sum() / 2, (both - lam).sum() / 2]
    assert_allclose(norms, printed[::-1], rtol=1e-5)
    assert_allclose(converged_norms(sigma, lam), norms, rtol=1e-5)
    assert abs(norms[0] - printed[0]) > 1


def test_equation_176_has_the_wrong_sign_for_unequal_sizes() -> None:
    """Its right side is N_h (N_i − N_o)/(N_i + N_o), from the exchanged norms."""
    sigma = np.eye(2, 5)  # N_o = 2, N_i = 5, s̃ = 1: Σ λ/√(λ² + 4s̃²) = N_h ρ at λ = 2ρ/√(1 − ρ²)
    printed = 2 * (3 / 7) / math.sqrt(1 - (3 / 7) ** 2)

    def loss(lam: float) -> float:  # the part of eq. 173 that depends on λ, of converged weights
        W1, W2 = aligned_init(sigma, np.ones(2), lam, rng=0)
        return float(5 * np.square(W2).sum() + 2 * np.square(W1).sum())

    assert loss(-printed) < min(loss(-printed - 0.1), loss(-printed + 0.1), loss(0.0))
    assert loss(printed) > loss(0.0)


@pytest.mark.slow
def test_equation_171_and_the_main_text_lack_a_half() -> None:
    task, std, rng = semantic_hierarchy(), 0.5, np.random.default_rng(0)
    noise = rng.normal(0.0, std, (20_000, *task.x.shape))
    errors = task.sigma_yx @ (task.x + noise) - task.y
    rise = np.square(errors).sum(1).mean() / 2 - task.least_loss
    printed = std**2 * np.square(task.sigma_yx).sum()
    assert float(input_noise_loss(task.sigma_yx, std)) == pytest.approx(rise, rel=0.01)
    assert printed == pytest.approx(2 * rise, rel=0.01)


def test_theorem_a3_has_4_on_the_diagonal_where_it_is_2() -> None:
    """Var Σw² = 2Nσ⁴: 3N + (N² − N) − N² = 2N. So in Table 1 and 2, whose 𝔹 is the theorem's."""
    rng = np.random.default_rng(0)
    W2, W1 = rng.normal(0, 0.7, (40_000, 6, 3)), rng.normal(0, 0.5, (40_000, 3, 4))
    variance = balance(W1, W2).var(0) / (6 * 0.7**4 + 4 * 0.5**4)
    assert_allclose(variance, np.ones((3, 3)) + np.eye(3), atol=0.06)


def test_table_2_squares_alpha_where_table_1_has_its_fourth_power() -> None:
    n, k, r, a, b = 10, 2.0, 3.0, 1.5, 2.0  # N_i, N_{i+1}/N_i, N_{i+2}/N_i, α_i, α_{i+1}
    table_1 = r * n * (b**2 / (k * n)) ** 2 + n * (a**2 / n) ** 2
    assert (r * b**4 / k**2 + a**4) / n == pytest.approx(table_1)
    assert (r * b**2 / k**2 + a**2) / n != pytest.approx(table_1, rel=0.5)


def test_table_3_has_the_wrong_limits_for_glorot() -> None:
    """Printed: r → 0: 2; r → ∞: 2; k → 0: −2/(k + 1). Of E = 2(r/(k + r) − 1/(k + 1)), Table 2, they are −2/(k + 1),
    2k/(k + 1) and 0. (r = k has 0, which is right for three layers of one size, as the text says, k = r = 1.)"""
    for k, r, limit in ((1, 1, 0), (3, 0.001, -2 / (3 + 1)), (3, 10_000, 2 * 3 / (3 + 1)), (0.001, 2, 0)):
        found = expected_balance(1000, round(1000 * k), round(1000 * r), "glorot")
        assert found == pytest.approx(2 * (r / (k + r) - 1 / (k + 1)), abs=1e-9)
        assert found == pytest.approx(limit, abs=3e-3)


def test_a_wider_middle_can_raise_the_balance_of_glorot_and_lecun_reaches_negative_lambda() -> None:
    """A.3, of a larger k: "the opposite effect" to r's, which raises λ "in every one of the initializations". Not here,
    as k + r > √r(k + 1). Then: "limits as to what value λ can take (such as in LeCun λ ≥ 0)". It is N_o/N_h − 1 > −1,
    −I in Table 3."""
    assert expected_balance(100, 50, 400, "glorot") < expected_balance(100, 100, 400, "glorot")
    assert expected_balance(10, 100, 5, "lecun") == pytest.approx(5 / 100 - 1)


def test_algorithm_1_refuses_weights_that_exist_and_pads_with_zeros_instead_of_the_root_of_lambda() -> None:
    """Lines 2 and 5 raise for N_o > N_i with λ < 0, and N_i > N_o with λ > 0: as in Figure 5 (E.7). The other is
    in lines 20 to 22, for sizes that it lets pass: min(N_i, N_o) < N_h ≤ max(N_i, N_o), λ ≠ 0."""
    for lam, sizes in ((-9.0, (2, 2, 4)), (9.0, (4, 2, 2)), (2.0, (2, 3, 4))):
        assert balance_residual(*balanced_init(lam, *sizes, rng=0), lam) < 1e-12
    first, second = singular_pair(np.array([1.5, 0.4]), 2.0)
    S1, S2 = np.eye(3, 2) * first, np.eye(4, 3) * [*second, 0.0]
    assert balance_residual(S1, S2, 2.0) == pytest.approx(2.0)
    S2[2, 2] = math.sqrt(2.0)
    assert balance_residual(S1, S2, 2.0) < 1e-12


def test_theorem_c5_does_not_hold_for_growing_outputs() -> None:
    """At any time NTK(t) − NTK(0) → 0 for λ → ±∞, it says. With N_o > N_i, λUUᵀ turns by O(1/λ), so that the kernel
    moves by O(1) at a fixed time, and by O(λ) up to its limit, as Figure 5 shows; so for N_i > N_o and λ → −∞."""

    def kernel_movement(lam: float, n_in: int, n_out: int) -> tuple[float, float]:
        """‖NTK(1) − NTK(0)‖, and the kernel distance at t → ∞."""
        W1, W2, sigma = network(lam, n_in, 2, n_out)
        x, start, then = np.eye(n_in), gram(W1, W2), quadrants(Exact(W1, W2, sigma).qq(1.0)[0], n_in)
        change = ntk(then.w1tw1, then.w2w2t, x) - ntk(start.w1tw1, start.w2w2t, x)
        return float(np.linalg.norm(change)), float(ntk_distance(start, converged_quadrants(sigma, lam)))

    for sign, static, moving in ((1, (4, 2), (2, 4)), (-1, (2, 4), (4, 2))):
        (some, _), (less, least) = (kernel_movement(sign * lam, *static) for lam in (100.0, 1000.0))
        assert less == pytest.approx(some / 10, rel=0.2)
        assert least < 1e-4
        (some, _), (same, far) = (kernel_movement(sign * lam, *moving) for lam in (100.0, 1000.0))
        assert same == pytest.approx(some, rel=0.2)
        assert far > 0.05


@pytest.mark.parametrize("lam", [-2e3, 2e3])
def test_equations_169_and_170_lack_the_large_layer_s_change(lam: float) -> None:
    """N_i = N_o: S̃²/|λ| is the next order of the large layer too, as eqs. 161 and 163 have it: both move alike."""
    W1, W2, sigma = network(lam, 3, 3, 3)
    before, after, x = gram(W1, W2), converged_quadrants(sigma, lam), np.sqrt(3) * np.eye(3)
    change = abs(lam) * (ntk(after.w1tw1, after.w2w2t, x) - ntk(before.w1tw1, before.w2w2t, x))
    start = W2 @ W1
    inputs, outputs = sigma.T @ sigma - start.T @ start, sigma @ sigma.T - start @ start.T
    printed = ntk(inputs, 0 * outputs, x) if lam > 0 else ntk(0 * inputs, outputs, x)
    assert relative(ntk(inputs, outputs, x), change) < 1e-3
    assert relative(printed, change) > 0.3


@pytest.mark.parametrize(("lam", "start"), [(2.0, -1.0), (0.0, 0.4), (2.0, 0.4)])
def test_equations_180_to_182_are_not_the_dynamics_and_185_not_the_limit(lam: float, start: float) -> None:
    """S_λ⁻¹ stands for I, a term −λ·b·c is lacking (and s̃/s̃_λ in 181, at b² in 182): it does not begin at s(0), and
    ends at s̃_λ. The dynamics are those of eq. 129, which `singular_values` has."""
    target, t = 1.3, 0.5
    weights = aligned_init(np.array([[target]]), np.array([start]), lam, rng=0)
    first, second = gradient_flow(*weights, np.array([[target]]), [t])
    right = float((second[0] @ first[0]).item())
    b2, c2 = (float(np.square(each).item()) for each in section_4(*weights, np.array([[target]]), lam)[-2:])
    s_lam, goal = math.hypot(start, lam / 2), math.hypot(target, lam / 2)

    def printed(t: float) -> float:  # eq. 182
        two, four = math.exp(-2 * goal * t), math.exp(-4 * goal * t)
        below = 4 * goal * two + s_lam * b2 * (1 - two) + s_lam * c2 * (two - four)
        return (s_lam * b2 * goal - s_lam * c2 * target * four) / below

    assert singular_values(t, target, start, lam) == pytest.approx(right, abs=1e-8)
    assert abs(printed(t) - right) > 0.05
    assert abs(printed(0.0) - start) > 0.05
    assert printed(50.0) == pytest.approx(goal)  # eq. 185: s̃_λ
    assert singular_values(50.0, target, start, lam) == pytest.approx(target)


def test_output_similarity_of_equation_4_is_that_of_the_inputs_once_learnt() -> None:
    """Section 5 has it turn into the identity for λ → ∞, while that of the inputs becomes negligible. With Y = W₂W₁X,
    Yᵀ(W₂W₂ᵀ)⁺Y is XᵀW₁ᵀW₁X; what turns into λI is W₂W₂ᵀ."""
    task, lam = semantic_hierarchy(), 100.0
    learnt = converged_quadrants(task.sigma_yx, lam)
    inputs, outputs = rsm_input(learnt.w1tw1, task.x), rsm_output(learnt.w2w2t, task.y)
    assert relative(outputs, inputs) < 1e-9
    assert relative(learnt.w2w2t, lam * np.eye(8)) < 1e-3
    assert relative(outputs / np.trace(outputs), np.eye(8) / 8) > 0.5


def test_inputs_of_one_eighth_are_not_white() -> None:
    """E.2.2 has X = I/8 and calls it whitened; the whitened one-hot inputs of A1 are √8·I."""
    assert (np.eye(8) / 8) @ (np.eye(8) / 8).T / 8 == pytest.approx(np.eye(8) / 512)
    white = semantic_hierarchy().x
    assert white @ white.T / 8 == pytest.approx(np.eye(8))


def test_figure_4_exchanges_input_and_output_similarities() -> None:
    """Its caption and E.6 have USUᵀ for the input; the text of section 5 has ṼS̃Ṽᵀ, and so does the flow."""
    sigma = semantic_hierarchy().sigma_yx
    U, s, Vt = np.linalg.svd(sigma)
    W1, W2 = aligned_init(sigma, 0.3, 0.0, rng=0)
    input_side = quadrants(Exact(W1, W2, sigma).limit(), 8).w1tw1
    assert relative((Vt.T * s) @ Vt, input_side) < 1e-8
    assert relative((U * s) @ U.T, input_side) > 0.3


@pytest.mark.parametrize("size", [3, 4])
def test_half_of_the_zero_balanced_square_networks_end_on_a_saddle(size: int) -> None:
    """Section 5, of λ = 0 and task-agnostic weights: "guaranteed to find a rich solution", if B is not singular. No
    error of Theorem C.3, which asks for that; but for N_i = N_h = N_o it is singular for every second start: the sign
    of det(W₂W₁) cannot change, and where it is not that of det(Σyx) a direction is never learnt."""
    sigma, signs = np.random.default_rng(size).normal(size=(size, size)), []
    for seed in range(8):
        W1, W2 = balanced_init(0.0, size, size, size, rng=seed)
        signs.append(np.linalg.det(W2 @ W1) * np.linalg.det(sigma) > 0)
        smallest = np.linalg.svd(section_4(W1, W2, sigma, 0.0)[-2], compute_uv=False)[-1]
        learnt = Exact(W1, W2, sigma).limit()[size:, :size]
        assert (smallest > 1e-9) == (relative(learnt, sigma) < 1e-9) == signs[-1]
    assert 0 < sum(signs) < 8
