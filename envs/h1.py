"""The names of HumanoidBench's h1 tasks. `import supple.envs` registers `h1-walk-v0` and the others.

The tasks are defined in `humanoid_tasks.py`, which is only imported, with MuJoCo, when one of them is made.
"""

import gymnasium as gym

# Task (also the name of its scene) → its class in humanoid_tasks.py, and further arguments.
H1_TASKS: dict[str, tuple[str, dict[str, float]]] = {
    "walk": ("Walk", {"speed": 1.0}),
    "stand": ("Stand", {}),
    "run": ("Walk", {"speed": 5.0}),
    "hurdle": ("Hurdle", {}),
    "crawl": ("Crawl", {}),
    "maze": ("Maze", {}),
    "sit_simple": ("Sit", {}),
    "sit_hard": ("SitAnywhere", {}),
    "balance_simple": ("BalanceOnBoard", {}),
    "balance_hard": ("BalanceOnBoard", {}),
    "stair": ("Climb", {}),
    "slide": ("Climb", {}),
    "pole": ("Pole", {}),
    "reach": ("Reach", {}),
}

EPISODE = 1000  # steps


for task, (name, settings) in H1_TASKS.items():
    gym.register(
        f"h1-{task}-v0",
        f"{__package__}.humanoid_tasks:{name}",
        max_episode_steps=EPISODE,
        kwargs={"scene": task, **settings},
    )
