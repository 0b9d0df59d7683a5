"""The logs of other programs that the page about them reports."""

from pathlib import Path

from torch.utils.tensorboard import SummaryWriter

rows = ["arm,seed,step,value,task"]
for arm, kept in (("none", 0.6), ("mine", 0.8)):
    for seed in range(5):
        rows += [f"{arm},{seed},500,{0.9 + seed / 99},digits", f"{arm},{seed},1000,{0.8 + seed / 99},letters"]
        rows += [f"{arm},{seed},1000,{kept + seed / 90},digits"]
Path("results.csv").write_text("\n".join(rows))
for run in ("PPO_1", "PPO_2", "SAC_1", "SAC_2"):
    Path("logs", run).mkdir(parents=True)
    episodes = "".join(f"{i},10,{i}\n" for i in range(99))
    Path("logs", run, "monitor.csv").write_text(f'#{{"t_start": 0.0}}\nr,l,t\n{episodes}')
    with SummaryWriter(f"tb/{run}") as board:
        for step in range(1, 9):
            board.add_scalar("eval/mean_reward", step, step)
