"""What makes a checkout run on one machine: the environment, the embedded PostgreSQL and the demo."""
