"""Figures of deep linear networks (Dominé et al., 2025), a module each: `figN.draw(numbers)`, from its JSON."""
