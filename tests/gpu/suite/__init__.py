"""What tests/gpu/run.sh runs on a GPU, and how it is reported. Python's standard library alone."""
