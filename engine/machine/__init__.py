"""The machine that trains: processors, memory, GPUs, denormal numbers, and processes started by torchrun."""
