"""The application: programs built from the library; ``import onkel`` does not load them."""
