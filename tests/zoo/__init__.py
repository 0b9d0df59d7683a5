"""Networks as people have them, and what must hold for each of them under every measure and every intervention."""
