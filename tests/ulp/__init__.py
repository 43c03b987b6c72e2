"""How far single operators are from the true result, over all of their domain, beside PyTorch."""
