"""Where "From lazy to rich" (Dominé et al., 2025) prints something that does not hold, and what does.

Each test writes the printed formula out and holds it against integration of the gradient flow, sampling or algebra;
the formula of the library (or the corrected one) passes the same check. docs/linear.md has them as a table.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from supple.tracks.linear.exact import Exact, exact_qq
from supple.tracks.linear.flow import gradient_flow
from supple.tracks.linear.noise import converged_norms, input_noise_loss, most_robust_lambda
from supple.tracks.linear.representations import converged, gram, ntk, ntk_distance, quadrants
from supple.tracks.linear.singular_values import singular_values, transition
from supple.tracks.linear.tasks import semantic_hierarchy
from supple.tracks.linear.transfer import new_feature
from supple.tracks.linear.weights import aligned_init, balance_residual, balanced_init, expected_balance

Array = np.ndarray


def relative(found: Array, right: Array) -> float:
    return float(np.linalg.norm(found - right) / np.linalg.norm(right))


def flow_qq(W1: Array, W2: Array, sigma: Array, time: float) -> Array:
    first, second = gradient_flow(W1, W2, sigma, [time])
    Q = np.concatenate([first[0].T, second[0]])
    return Q @ Q.T


@dataclass
class Paper:
    """The quantities of section 4 for full-rank Σyx and N_h = min(N_i, N_o)."""

    W1: Array
    W2: Array
    sigma: Array
    lam: float

    def __post_init__(self) -> None:
        n_out, n_in = self.sigma.shape
        U, self.s, Vt = np.linalg.svd(self.sigma)
        rank = len(self.s)
        self.U, self.V, self.U_perp, self.V_perp = U[:, :rank], Vt[:rank].T, U[:, rank:], Vt[rank:].T
        self.s_lam = np.hypot(self.s, self.lam / 2)
        self.lam_perp = np.sign(n_out - n_in) * self.lam / 2
        H = np.sign(self.lam) * np.sqrt((self.s_lam - self.s) / (self.s_lam + self.s))
        G = 1 / np.sqrt(1 + H**2)
        self.plus, self.minus = G + H * G, G - H * G
        self.B = self.W2.T @ self.U * self.plus + self.W1 @ self.V * self.minus
        self.C = self.W2.T @ self.U * self.minus - self.W1 @ self.V * self.plus
        self.D = np.concatenate([self.W2.T @ self.U_perp, self.W1 @ self.V_perp], axis=1)

    def theorem_4_3(self, t: float, last: Callable[[float], float]) -> Array:
        """Eqs. 13–15; `last` is the scalar between D and Dᵀ in eq. 15, as a function of λ⊥."""
        grow, fall = np.exp(self.s_lam * t), np.exp(-self.s_lam * t)
        Z1 = (self.V * self.minus * grow) @ self.B.T / 2 - (self.V * self.plus * fall) @ self.C.T / 2
        Z2 = (self.U * self.plus * grow) @ self.B.T / 2 + (self.U * self.minus * fall) @ self.C.T / 2
        perp = math.exp(self.lam_perp * t)
        Z1 += perp * self.V_perp @ self.V_perp.T @ self.W1.T
        Z2 += perp * self.U_perp @ self.U_perp.T @ self.W2
        A = np.eye(len(self.W1)) + last(self.lam_perp) * self.D @ self.D.T
        A += (self.B * (grow**2 - 1) / (4 * self.s_lam)) @ self.B.T
        A -= (self.C * (fall**2 - 1) / (4 * self.s_lam)) @ self.C.T
        Z = np.concatenate([Z1, Z2])
        return Z @ np.linalg.solve(A, Z.T)


def network(lam: float, n_in: int, n_hidden: int, n_out: int, seed: int = 0) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    W1, W2 = balanced_init(lam, n_in, n_hidden, n_out, rng=rng)
    return W1, W2, rng.normal(size=(n_out, n_in))


@pytest.mark.parametrize(("n_in", "n_out"), [(5, 3), (3, 5)])
@pytest.mark.parametrize("lam", [-2.0, 2.0])
def test_equation_15_needs_twice_the_exponent_in_its_last_term(n_in: int, n_out: int, lam: float) -> None:
    """Also eqs. 58, 60, 62, 72, 75, 76, 79, 81: (e^{λ⊥t/τ} − I)/λ⊥ is printed for (e^{2λ⊥t/τ} − I)/(2λ⊥)."""
    W1, W2, sigma = network(lam, n_in, 3, n_out)
    paper, time = Paper(W1, W2, sigma, lam), 0.7
    right = flow_qq(W1, W2, sigma, time)
    assert relative(paper.theorem_4_3(time, lambda perp: math.expm1(2 * perp * time) / (2 * perp)), right) < 1e-8
    assert relative(paper.theorem_4_3(time, lambda perp: math.expm1(perp * time) / perp), right) > 1e-3
    assert relative(exact_qq(W1, W2, sigma, [time])[0], right) < 1e-8


def test_equation_77_needs_twice_the_exponent_in_the_term_with_c() -> None:
    """Eqs. 77 and 82 print (e^{−S̃_λt/τ} − I)/(4S̃_λ), eq. 81 rightly e^{−2S̃_λt/τ}. N_i = N_o: no other term."""
    W1, W2, sigma = network(1.0, 3, 3, 3)
    paper, t = Paper(W1, W2, sigma, 1.0), 0.4
    fall = np.exp(-paper.s_lam * t)
    E = np.linalg.solve(paper.B, np.eye(3)).T * fall  # B⁻ᵀ e^{−S̃_λ t}
    CE = paper.C.T @ E
    Z = np.concatenate(
        [
            paper.V @ (np.diag(paper.minus) - (paper.plus * fall)[:, None] * CE) / 2,
            paper.U @ (np.diag(paper.plus) + (paper.minus * fall)[:, None] * CE) / 2,
        ]
    )
    right = flow_qq(W1, W2, sigma, t)

    def stable(power: int) -> Array:
        middle = E.T @ E + np.diag((1 - fall**2) / (4 * paper.s_lam))
        middle -= CE.T @ np.diag((fall**power - 1) / (4 * paper.s_lam)) @ CE
        return Z @ np.linalg.solve(middle, Z.T)

    assert relative(stable(2), right) < 1e-8
    assert relative(stable(1), right) > 1e-2


@pytest.mark.parametrize(("lam", "sizes"), [(1.5, (5, 2, 4)), (-1.5, (5, 2, 4)), (1.5, (3, 4, 6)), (0.0, (4, 7, 3))])
def test_assumption_3_is_not_needed(lam: float, sizes: tuple[int, int, int]) -> None:
    """Eq. 7 holds for bottlenecks and for N_h > min(N_i, N_o): nothing but λ-balance enters the Riccati equation."""
    W1, W2, sigma = network(lam, *sizes)
    assert relative(exact_qq(W1, W2, sigma, [0.6])[0], flow_qq(W1, W2, sigma, 0.6)) < 1e-8


def test_equation_87_lacks_the_minus_of_an_inverse_s_derivative() -> None:
    A, dA, h = np.array([[2.0, 1.0], [0.5, 3.0]]), np.array([[0.3, -1.0], [0.7, 0.2]]), 1e-6
    slope = (np.linalg.inv(A + h * dA) - np.linalg.inv(A - h * dA)) / (2 * h)
    printed = np.linalg.inv(A) @ dA @ np.linalg.inv(A)
    assert relative(-printed, slope) < 1e-8
    assert relative(printed, slope) > 1


def test_equation_103_halves_the_exponent_it_differentiates() -> None:
    """d/dt 2M e^{λ⊥t} Mᵀ is 2M λ⊥ e^{λ⊥t} Mᵀ, not 2M (λ⊥/2) e^{λ⊥t} Mᵀ, as eqs. 61 and 105 need it."""
    W1, W2, sigma = network(2.0, 5, 3, 3)
    paper = Paper(W1, W2, sigma, 2.0)
    F = np.block([[-np.eye(5), sigma.T], [sigma, np.eye(3)]])
    growing = np.concatenate([paper.V * paper.minus, paper.U * paper.plus])
    falling = np.concatenate([paper.V * paper.plus, -paper.U * paper.minus])
    rest = F - (growing * paper.s_lam) @ growing.T / 2 + (falling * paper.s_lam) @ falling.T / 2
    two_m_mt = np.zeros((8, 8))
    two_m_mt[:5, :5] = paper.V_perp @ paper.V_perp.T
    assert relative(paper.lam_perp * two_m_mt, rest) < 1e-12
    assert relative(paper.lam_perp / 2 * two_m_mt, rest) > 0.4


def test_equation_117_holds_for_positive_starts_only() -> None:
    """For s(0) < 0 and λ → 0 the printed sigmoid divides by zero at e^{2s̃t} = 1 + s̃/|s(0)|; γ stays below 1 (Theorem
    5.1 says it reaches 1): the network ends on the saddle, s = 0."""
    target, start = 1.0, -1.0
    pole = math.log(1 + target / abs(start)) / (2 * target)
    printed = math.expm1(2 * target * (pole - 1e-6)) / (math.expm1(2 * target * (pole - 1e-6)) + target / start)
    assert abs(printed) > 1e5
    assert transition(pole, target, start, 0.0) == pytest.approx(transition(pole, target, start, 1e-9), abs=1e-6)
    assert transition(1e6, target, start, 0.0) == pytest.approx(0.5)
    W1, W2 = aligned_init(np.eye(1), np.array([start]), 0.0, rng=0)
    first, second = gradient_flow(W1, W2, np.eye(1), [pole])
    assert singular_values(pole, target, start, 0.0) == pytest.approx((second[0] @ first[0]).item(), abs=1e-8)


def test_a_large_start_at_lambda_zero_learns_hyperbolically_not_exponentially() -> None:
    """A.4 has exponential dynamics for s(0) → ∞; there γ → 2s(0)t / (1 + 2s(0)t)."""
    start, scaled_time = 1e6, np.linspace(0.2, 5, 20)
    gamma = transition(scaled_time / start, 1.0, start, 0.0)
    np.testing.assert_allclose(gamma, 2 * scaled_time / (1 + 2 * scaled_time), rtol=1e-4)
    rates = -np.log1p(-gamma) / scaled_time  # one number, were it an exponential
    assert rates.max() > 3 * rates.min()


@pytest.mark.parametrize("lam", [-3.0, 2.0])
def test_equations_174_and_175_exchange_the_two_norms(lam: float) -> None:
    W1, W2, sigma = network(lam, 3, 3, 3)
    first, second = gradient_flow(W1, W2, sigma, [60.0])
    norms = [float(np.square(W[0]).sum()) for W in (first, second)]
    both = np.hypot(lam, 2 * np.linalg.svd(sigma, compute_uv=False))
    printed = [(both + lam).sum() / 2, (both - lam).sum() / 2]
    np.testing.assert_allclose(norms, printed[::-1], rtol=1e-5)
    np.testing.assert_allclose(converged_norms(sigma, lam), norms, rtol=1e-5)
    assert abs(norms[0] - printed[0]) > 1


def test_equation_176_has_the_wrong_sign_for_unequal_sizes() -> None:
    sigma = np.eye(2, 5)  # N_o = 2, N_i = 5, s̃ = 1: Σ λ/√(λ² + 4s̃²) = N_h ρ at λ = 2ρ/√(1 − ρ²)
    printed = 2 * (3 / 7) / math.sqrt(1 - (3 / 7) ** 2)

    def loss(lam: float) -> float:  # the part of eq. 173 that depends on λ, of converged weights
        W1, W2 = aligned_init(sigma, np.ones(2), lam, rng=0)
        return float(5 * np.square(W2).sum() + 2 * np.square(W1).sum())

    assert most_robust_lambda(sigma) == pytest.approx(-printed)
    assert loss(-printed) < min(loss(-printed - 0.1), loss(-printed + 0.1), loss(0.0))
    assert loss(printed) > loss(0.0)


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
    n_hidden, n_out, n_in, draws = 3, 6, 4, 40_000
    rng = np.random.default_rng(0)
    W2, W1 = rng.normal(0, 0.7, (draws, n_out, n_hidden)), rng.normal(0, 0.5, (draws, n_hidden, n_in))
    variance = (W2.mT @ W2 - W1 @ W1.mT).var(0) / (n_out * 0.7**4 + n_in * 0.5**4)
    right = np.ones((3, 3)) + np.eye(3)
    np.testing.assert_allclose(variance, right, atol=0.06)


def test_table_2_squares_alpha_where_table_1_has_its_fourth_power() -> None:
    n, k, r, a, b = 10, 2.0, 3.0, 1.5, 2.0  # N_i, N_{i+1}/N_i, N_{i+2}/N_i, α_i, α_{i+1}
    table_1 = r * n * (b**2 / (k * n)) ** 2 + n * (a**2 / n) ** 2
    assert (r * b**4 / k**2 + a**4) / n == pytest.approx(table_1)
    assert (r * b**2 / k**2 + a**2) / n != pytest.approx(table_1, rel=0.5)


def test_table_3_has_the_wrong_limits_for_glorot() -> None:
    """Printed: r = k: 0; r → 0: 2; r → ∞: 2; k → 0: −2/(k + 1). Of E = 2(r/(k + r) − 1/(k + 1)), Table 2."""
    n = 1000  # N_i; sizes are n, k·n, r·n

    def balance(k: float, r: float) -> float:
        found = expected_balance(n, round(k * n), round(r * n), "glorot")
        assert found == pytest.approx(2 * (r / (k + r) - 1 / (k + 1)), abs=1e-9)
        return found

    assert balance(3, 3) == pytest.approx((3 - 1) / (3 + 1))
    assert balance(3, 0.001) == pytest.approx(-2 / (3 + 1), abs=1e-3)
    assert balance(3, 10_000) == pytest.approx(2 * 3 / (3 + 1), abs=1e-3)
    assert balance(0.001, 2) == pytest.approx(0, abs=3e-3)


def test_a_wider_middle_can_raise_the_balance_of_glorot() -> None:
    """A.3: "a larger k has the opposite effect" in all of Table 2; not here, where k + r > √r(k + 1)."""
    assert expected_balance(100, 50, 400, "glorot") < expected_balance(100, 100, 400, "glorot")


def test_lecun_initialisation_reaches_negative_lambda() -> None:
    """A.3 says λ ≥ 0; it is N_o/N_h − 1 > −1."""
    assert expected_balance(10, 100, 5, "lecun") == pytest.approx(5 / 100 - 1)


@pytest.mark.parametrize(("lam", "sizes"), [(-2.0, (3, 3, 5)), (2.0, (5, 3, 3)), (1.0, (5, 2, 4)), (-1.0, (5, 2, 4))])
def test_algorithm_1_refuses_weights_that_exist(lam: float, sizes: tuple[int, int, int]) -> None:
    """(N_o > N_i, λ < 0) and (N_i > N_o, λ > 0), which Figure 5 needs, and bottlenecks."""
    assert balance_residual(*balanced_init(lam, *sizes, rng=0), lam) < 1e-12


def test_algorithm_1_pads_with_zeros_where_the_balance_needs_the_root_of_lambda() -> None:
    lam, n_in, n_hidden, n_out, rng = 2.0, 2, 3, 4, np.random.default_rng(0)
    s = np.linalg.svd(rng.normal(size=(n_out, n_hidden)) @ rng.normal(size=(n_hidden, n_in)), compute_uv=False)
    S1, S2 = np.zeros((n_hidden, n_in)), np.zeros((n_out, n_hidden))
    np.fill_diagonal(S1, np.sqrt((np.sqrt(lam**2 + 4 * s**2) - lam) / 2))
    S2[:2, :2] = np.diag(np.sqrt((np.sqrt(lam**2 + 4 * s**2) + lam) / 2))
    assert balance_residual(S1, S2, lam) == pytest.approx(lam)
    S2[2, 2] = math.sqrt(lam)
    assert balance_residual(S1, S2, lam) < 1e-12
    assert balance_residual(*balanced_init(lam, n_in, n_hidden, n_out, rng=0), lam) < 1e-12


def test_equations_160_to_163_lack_the_half_of_the_taylor_series() -> None:
    """√(1 + x²) = 1 + x²/2: with x² the leading term of the small layer would be 2s̃²/|λ|."""
    s, lam = 1.5, 1e3
    small = (math.sqrt(lam**2 + 4 * s**2) - lam) / 2
    assert small == pytest.approx(s**2 / lam, rel=1e-5)
    assert (lam * (1 + (2 * s / lam) ** 2) - lam) / 2 == pytest.approx(2 * small, rel=1e-5)


def test_equation_164_equates_the_two_limits() -> None:
    """(√(λ² + 4s̃²) − λ)/2 → −λ for λ → −∞, which is not "s̃²/|λ|"."""
    s, lam = 1.5, -1e3
    found = (math.sqrt(lam**2 + 4 * s**2) - lam) / 2
    assert found == pytest.approx(-lam, rel=1e-5)
    assert found != pytest.approx(s**2 / abs(lam), rel=0.5)


def test_equations_165_and_166_mean_the_squares_of_the_singular_values() -> None:
    sigma = np.random.default_rng(0).normal(size=(3, 3))
    U, s, _ = np.linalg.svd(sigma)
    limit = Exact(*balanced_init(40.0, 3, 3, 3, rng=1), sigma).limit()[3:, 3:]
    s2 = np.sqrt((np.sqrt(40.0**2 + 4 * s**2) + 40) / 2)
    assert relative((U * s2**2) @ U.T, limit) < 1e-9
    assert relative((U * s2) @ U.T, limit) > 0.5


def test_theorem_c5_does_not_hold_for_growing_outputs() -> None:
    """The kernel is said to be static for λ → ±∞. With N_o > N_i, UUᵀ turns into ŨŨᵀ while λ multiplies it: the
    kernel moves by O(λ), as Figure 5 shows; so for N_i > N_o and λ → −∞."""

    def moved(lam: float, n_in: int, n_out: int) -> float:
        W1, W2, sigma = network(lam, n_in, 2, n_out)
        return float(ntk_distance(gram(W1, W2), converged(sigma, lam)))

    for lam in (30.0, 300.0):  # lazy on one side, and not at all on the other
        assert moved(lam, 2, 4) > 0.05
        assert moved(-lam, 4, 2) > 0.05
        assert moved(-lam, 2, 4) < 1e-2
        assert moved(lam, 4, 2) < 1e-2


@pytest.mark.parametrize("lam", [-2e3, 2e3])
def test_equations_169_and_170_lack_the_large_layer_s_change(lam: float) -> None:
    """N_i = N_o: S̃² / |λ| is the next order of the large layer as well, so both representations move alike."""
    W1, W2, sigma = network(lam, 3, 3, 3)
    before, after, x = gram(W1, W2), converged(sigma, lam), np.sqrt(3) * np.eye(3)
    change = abs(lam) * (ntk(after.w1tw1, after.w2w2t, x) - ntk(before.w1tw1, before.w2w2t, x))
    start = W2 @ W1
    inputs, outputs = sigma.T @ sigma - start.T @ start, sigma @ sigma.T - start @ start.T
    printed = ntk(inputs, 0 * outputs, x) if lam > 0 else ntk(0 * inputs, outputs, x)
    assert relative(ntk(inputs, outputs, x), change) < 1e-3
    assert relative(printed, change) > 0.3


def reversed_mode(s: float, target: float, lam: float) -> tuple[float, float]:
    """(b, c), one diagonal entry of B and C of an aligned network with value s, negative if reversed."""
    paper = Paper(*aligned_init(np.array([[target]]), np.array([s]), lam, rng=0), np.array([[target]]), lam)
    return float(paper.B.item() ** 2), float((paper.B * paper.C).item())


def test_reversal_c_is_zero_and_b_is_not_where_the_appendix_says_the_opposite() -> None:
    """D.2, λ ≠ 0: "the diagonal of C is non-zero … reversed or aligned" (it is 0 for aligned, learnt modes, as
    B·C = (λ/S̃_λ)(S̃ − S)), and "B is a diagonal matrix with elements that are zero" (none is)."""
    assert reversed_mode(1.3, 1.3, 2.0)[1] == pytest.approx(0, abs=1e-12)
    assert reversed_mode(-1.3, 1.3, 2.0)[0] > 0.1
    s, target, lam = -0.4, 1.3, 2.0
    assert reversed_mode(s, target, lam)[1] == pytest.approx(lam / math.hypot(target, lam / 2) * (target - s))


@pytest.mark.parametrize(("lam", "start"), [(2.0, -1.0), (0.0, 0.4), (2.0, 0.4)])
def test_equations_180_to_182_are_not_the_dynamics_and_185_not_the_limit(lam: float, start: float) -> None:
    """S_λ⁻¹ for I, and no −λ·b·c (and s̃/s̃_λ in the numerator of 181, 182): they do not even begin at s(0), nor end
    at s̃ for λ ≠ 0. The dynamics are those of eq. 129, which `singular_values` has."""
    target, t = 1.3, 0.5
    weights = aligned_init(np.array([[target]]), np.array([start]), lam, rng=0)
    first, second = gradient_flow(*weights, np.array([[target]]), [t])
    right = float((second[0] @ first[0]).item())
    paper = Paper(*weights, np.array([[target]]), lam)
    b2, c2, bc = ((x * y).item() for x, y in ((paper.B, paper.B), (paper.C, paper.C), (paper.B, paper.C)))
    s_lam, goal = math.hypot(start, lam / 2), math.hypot(target, lam / 2)

    def printed(t: float) -> float:  # eq. 182
        two, four = math.exp(-2 * goal * t), math.exp(-4 * goal * t)
        below = 4 * goal * two + s_lam * b2 * (1 - two) + s_lam * c2 * (two - four)
        return (s_lam * b2 * goal - s_lam * c2 * target * four) / below

    grow = math.exp(2 * goal * t)
    moving = grow * b2 - c2 / grow
    eq_129 = (target * moving - lam * bc) / (4 * goal + moving + c2 - b2)
    assert eq_129 == pytest.approx(right, abs=1e-8)
    assert singular_values(t, target, start, lam) == pytest.approx(right, abs=1e-8)
    assert abs(printed(t) - right) > 0.05
    assert abs(printed(0.0) - start) > 0.05
    assert printed(50.0) == pytest.approx(goal)  # eq. 185: s̃_λ
    assert singular_values(50.0, target, start, lam) == pytest.approx(target)


def test_inputs_of_one_eighth_are_not_white() -> None:
    """E.2.2 has X = I/8; the whitened one-hot inputs are √8·I."""
    assert (np.eye(8) / 8) @ (np.eye(8) / 8).T / 8 == pytest.approx(np.eye(8) / 512)
    assert semantic_hierarchy().sigma_xx == pytest.approx(np.eye(8))


def test_figure_4_exchanges_input_and_output_similarities() -> None:
    """Its caption and E.6 have USUᵀ for the input; the text of section 5 has ṼS̃Ṽᵀ, and so does the flow."""
    sigma = semantic_hierarchy().sigma_yx
    U, s, Vt = np.linalg.svd(sigma)
    W1, W2 = aligned_init(sigma, 0.3, 0.0, rng=0)
    input_side = quadrants(Exact(W1, W2, sigma).limit(), 8).w1tw1
    assert relative((Vt.T * s) @ Vt, input_side) < 1e-8
    assert relative((U * s) @ U.T, input_side) > 0.3


def test_lambda_zero_does_transfer() -> None:
    """Section 6: "λ ≤ 0 … no hierarchical generalization", right after "transferred when λ is zero"."""
    task = semantic_hierarchy()
    feature = new_feature(converged(task.sigma_yx, 0.0).w1tw1, task.x, item=0)
    assert feature[1] > 0.2  # the other fish
    assert abs(feature[4:]).max() < 0.01  # plants


@pytest.mark.parametrize("size", [3, 4])
def test_half_of_the_zero_balanced_square_networks_end_on_a_saddle(size: int) -> None:
    """Section 5: "guaranteed to find a rich solution" from task-agnostic weights with λ = 0. For N_i = N_h = N_o the
    sign of det(W2W1) cannot change: if it is not that of det(Σyx), B is singular and a direction is never learnt."""
    sigma, signs = np.random.default_rng(size).normal(size=(size, size)), []
    for seed in range(8):
        W1, W2 = balanced_init(0.0, size, size, size, rng=seed)
        same_sign = np.linalg.det(W2 @ W1) * np.linalg.det(sigma) > 0
        smallest = np.linalg.svd(Paper(W1, W2, sigma, 0.0).B, compute_uv=False)[-1]
        learnt = Exact(W1, W2, sigma).limit()[size:, :size]
        assert (smallest > 1e-9) == same_sign
        assert (relative(learnt, sigma) < 1e-9) == same_sign
        signs.append(same_sign)
    assert 0 < sum(signs) < 8
