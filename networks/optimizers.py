"""The step of an optimizer, with less overhead than `torch.optim.Optimizer.step` where networks are small."""

import torch

PLAIN = {"fused": True, "capturable": False, "amsgrad": False, "maximize": False, "differentiable": False}


def step(optimizer: torch.optim.Optimizer) -> None:
    """Make a step of the optimizer, with less overhead if it is a fused Adam or AdamW on a CPU, or a stack's Adam.

    The results are those of `optimizer.step()`, bit for bit. PyTorch's bookkeeping around the arithmetic (marks for
    profilers, hooks, lists by device) takes longer than the arithmetic itself if networks are small. An optimizer of
    ours has its arithmetic as a method of that name. A first step, and any other optimizer, use `optimizer.step()`, as
    do optimizers with step hooks.
    """
    if optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks:
        optimizer.step()
        return
    if own := getattr(optimizer, "arithmetic", None):
        own()
        return
    group, *others = optimizer.param_groups
    parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
    slots = [optimizer.state[parameter] for parameter in parameters]
    plain = type(optimizer) in (torch.optim.Adam, torch.optim.AdamW) and PLAIN.items() <= group.items()
    if others or not plain or not all(slots):
        optimizer.step()
        return
    steps = [slot["step"] for slot in slots]
    arithmetic = torch._fused_adamw_ if group["decoupled_weight_decay"] else torch._fused_adam_
    with torch.no_grad():
        torch._foreach_add_(steps, 1)
        arithmetic(
            parameters, [parameter.grad for parameter in parameters], [slot["exp_avg"] for slot in slots],
            [slot["exp_avg_sq"] for slot in slots], [], steps, lr=group["lr"], beta1=group["betas"][0],
            beta2=group["betas"][1], weight_decay=group["weight_decay"], eps=group["eps"], amsgrad=False,
            maximize=False,
        )  # fmt: skip
