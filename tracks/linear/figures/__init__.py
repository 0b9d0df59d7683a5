"""The figures of Dominé et al. (2025), one module each: `figN.numbers(seed)` for JSON, `figN.draw(numbers)`."""
