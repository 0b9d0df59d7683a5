"""Curvature of the loss: the largest eigenvalues of its Hessian, without forming it."""

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

Product = Callable[[Tensor], Tensor]
PIECE = 2**16  # of a basis that is turned in place: numbers of each vector at once


class NotFinite(ValueError):
    """The loss is not one finite number, or its Hessian is not finite."""


def hessian_eigenvalues(
    loss_fn: Callable[[], Tensor],
    parameters: Iterable[Tensor],
    k: int = 1,
    members: int | None = None,
    tolerance: float = 1e-4,
    max_iterations: int = 100,
    seed: int = 0,
    block: int | None = None,
    max_basis: int | None = None,
) -> Tensor:
    """Return the k largest (algebraic, not in magnitude) eigenvalues of ∇²L, descending, (k,) float64.

    FIRE's Figure 5b and Lillo & Cheney, B.7.1, use λ_max, k = 1; the latter by power iteration, which finds the
    eigenvalue of largest magnitude even if it is negative. This is block Lanczos with full reorthogonalisation, on
    Hessian-vector products by double backward. Cost: about three gradients for each vector; memory of block ·
    iterations copies of the parameters (or of `max_basis`, if that is less), and of a few blocks. `.grad` and global
    generators are unchanged. Attention runs on its plain kernel, which has a second derivative.

    Args:
        loss_fn: Returns the scalar loss L, (); called once.
        parameters: The variables of L, of any shapes. A parameter that L does not depend on contributes zeros.
        k: Number of eigenvalues, at least 1.
        members: For a stack of m networks, whose parameters have the member first and whose loss is the sum over
            members. The Hessian is block-diagonal, so one product serves all blocks. The result is (m, k), with the
            values that each member has on its own, and NaN for one whose Hessian is not finite.
        tolerance: An eigenvalue θ has converged if its residual ‖Hy − θy‖ is at most tolerance · |θ| (or tolerance
            times a thousandth of the largest |θ|, if that is more). The error is at most the residual, and usually its
            square over the gap to the rest of the spectrum.
        max_iterations: The maximum number of iterations; if it is reached, values are lower bounds. In float32 the
            products have an uncertainty of about 1e-6 of the largest |θ|.
        seed: Seed of the start vectors, which are drawn from a separate generator.
        block: Vectors multiplied in one iteration, 1 to k; default k. A repeated eigenvalue is found up to `block`
            times.
        max_basis: Vectors stored at once, at least k + block; by default all of them. If fewer, it restarts from the
            best (thick restart), which takes more iterations. Three or four times k are enough for a language model,
            with block=1.

    Raises:
        ValueError: There are fewer than k parameters (of each member), the basis is too small, or the loss
            has no second derivative.
        NotFinite (a ValueError): The loss is no scalar or, without `members`, it or its Hessian is not finite.

    Examples:
        >>> import torch
        >>> from supple.metrics import hessian_eigenvalues
        >>> x = torch.ones(2, requires_grad=True)
        >>> [round(value, 4) for value in hessian_eigenvalues(lambda: 3 * x[0] ** 2 + x[1] ** 2, [x], k=2).tolist()]
        [6.0, 2.0]
    """
    wanted = list(parameters)
    networks = 1 if members is None else members
    dimension = sum(p.numel() for p in wanted) // networks
    if not 1 <= k <= dimension:
        raise ValueError(f"hessian_eigenvalues: k must be between 1 and the {dimension} parameters, got {k}")
    width = k if block is None else block
    if max_basis is not None and max_basis < min(k + width, dimension):
        raise ValueError(f"hessian_eigenvalues: max_basis must be k + block = {k + width} or more, got {max_basis}")
    with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
        loss = loss_fn()
    if loss.numel() != 1 or (members is None and not loss.isfinite()):
        raise NotFinite(f"hessian_eigenvalues: the loss must be one finite number, got {loss.detach().tolist()}")
    product = _hessian_product(loss, wanted, networks)
    precise = torch.promote_types(wanted[0].dtype, torch.float32)  # half precision has no QR decomposition
    start = wanted[0].new_empty(0, dtype=precise)
    budget = max(k, width * max_iterations)
    held = min(dimension, budget, max_basis or budget)
    values = _lanczos(product, networks, dimension, k, width, tolerance, budget, held, seed, start)
    if members is None and values.isnan().any():
        raise NotFinite("hessian_eigenvalues: the loss is finite, but its Hessian is not")
    return values[0] if members is None else values


def _hessian_product(loss: Tensor, parameters: Sequence[Tensor], networks: int) -> Product:
    """Return the function v ↦ Hv for (networks, parameters) vectors."""
    gradients: tuple[Tensor, ...] = ()
    if loss.requires_grad:
        gradients = torch.autograd.grad(loss, parameters, create_graph=True, allow_unused=True, materialize_grads=True)
    live = [i for i, gradient in enumerate(gradients) if gradient.requires_grad]
    sizes = [p.numel() // networks for p in parameters]

    def product(vector: Tensor) -> Tensor:
        if not live:  # a loss that is linear in its parameters
            return torch.zeros_like(vector)
        parts = vector.split(sizes, dim=1)
        try:
            products = torch.autograd.grad(
                [gradients[i] for i in live],
                parameters,
                [parts[i].reshape(parameters[i].shape).to(parameters[i]) for i in live],
                retain_graph=True,
                allow_unused=True,
                materialize_grads=True,
            )
        except NotImplementedError as error:  # of EmbeddingBag, for example
            raise ValueError(f"hessian_eigenvalues: the loss has no second derivative: {error}") from error
        return torch.cat([p.reshape(networks, -1).to(vector) for p in products], dim=1)

    return product


def _lanczos(
    product: Product,
    networks: int,
    dimension: int,
    k: int,
    width: int,
    tolerance: float,
    budget: int,
    held: int,
    seed: int,
    like: Tensor,
) -> Tensor:
    """Return eigenvalues by Rayleigh–Ritz on the growing Krylov space of H, for every network: (networks, k) float64.

    budget: vectors multiplied by H at most. held: vectors stored at most. When all are used, the space shrinks to its
    best Ritz vectors and grows again. Their residuals all lie in the next block, so it remains a Krylov space.
    """
    generator = torch.Generator().manual_seed(seed)
    epsilon = torch.finfo(like.dtype).eps

    def noise(columns: int) -> Tensor:  # one draw for all networks: each sees what it would see alone
        drawn = torch.randn(dimension, columns, generator=generator, dtype=like.dtype)
        return drawn.to(like.device).expand(networks, -1, -1)

    basis = like.new_empty(networks, held, dimension)
    projected = torch.zeros(networks, held, held, dtype=torch.float64, device=like.device)
    block = torch.linalg.qr(noise(width)).Q
    values = projected.new_zeros(networks, k)
    converged = torch.zeros(networks, dtype=torch.bool, device=like.device)
    broken = converged.clone()  # whose products are not finite: they are taken as 0
    size = spent = 0
    while True:
        first, size, spent = size, size + block.shape[-1], spent + block.shape[-1]
        basis[:, first:size] = block.mT
        known = basis[:, :size].mT
        rest = torch.stack([product(vector) for vector in block.unbind(-1)], dim=-1)
        broken |= ~rest.isfinite().flatten(1).all(1)
        rest.masked_fill_(broken[:, None, None], 0.0)
        coefficients = known.mT @ rest
        projected[:, :size, first:size] = coefficients
        projected[:, first:size, :size] = coefficients.mT
        rest -= known @ coefficients

        ritz, vectors = torch.linalg.eigh(projected[:, :size, :size])
        scale = ritz.abs().amax(-1, keepdim=True)
        if size >= k:
            best, combinations = ritz[:, -k:].flip(-1), vectors[:, first:, -k:].flip(-1)
            lengths = torch.linalg.qr(rest, mode="r").R  # ‖rest·c‖ = ‖R·c‖, without k more vectors
            residuals = torch.linalg.vector_norm(lengths @ combinations.to(lengths), dim=1)
            values = torch.where(converged[:, None], values, best)  # a member's are those of when it converged
            converged |= (residuals <= tolerance * best.abs().maximum(1e-3 * scale)).all(-1)
            if size == dimension or spent >= budget or converged.all():
                return values.masked_fill(broken[:, None], torch.nan)

        # Where the Krylov space is exhausted nothing is left but rounding; noise of that size lets another
        # invariant subspace in, in which a repeated eigenvalue may come again.
        rounding = (epsilon * scale.clamp(min=epsilon) / dimension**0.5).to(rest)
        if size + min(rest.shape[-1], budget - spent, dimension - size) > held:
            size = _restart_(basis[:, :size], projected, ritz, vectors, k + (held - width - k) // 2)
            known = basis[:, :size].mT
        block = rest[..., : min(budget - spent, dimension - size)]  # after a restart all of it fits
        block = block + noise(block.shape[-1]) * rounding[..., None]
        for _ in range(2):  # once more after normalising: what was nearly nothing is not orthogonal yet
            block = torch.linalg.qr(block - known @ (known.mT @ block)).Q


def _restart_(basis: Tensor, projected: Tensor, ritz: Tensor, vectors: Tensor, keep: int) -> int:
    """Replace the basis by its `keep` best Ritz vectors, in place, and return their number."""
    turn = vectors[..., -keep:].mT.to(basis)
    for piece in basis.split(PIECE, dim=-1):
        piece[:, :keep] = turn @ piece
    projected.zero_()
    projected[:, :keep, :keep] = torch.diag_embed(ritz[:, -keep:])
    return keep
