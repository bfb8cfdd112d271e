"""What commands do: modules with all their imports, which a command loads when it runs."""
