"""Networks as plain PyTorch modules. Methods select shared parameters by name patterns."""
