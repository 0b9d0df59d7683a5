"""The figures of Dominé et al. (2025), one module each: `figN.numbers(seed)`, `figN.draw(runs.for_json(numbers))`."""
