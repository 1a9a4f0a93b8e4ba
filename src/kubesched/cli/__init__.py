"""The command `kubesched`: parsing arguments and showing results. No logic; heavy imports only when a command runs."""
