"""The figures of Dominé et al. (2025), a module each: `figN.numbers(seed)`, plain for JSON; `figN.draw(numbers)`."""
