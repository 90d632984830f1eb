"""Virtual boards: systemd containers with a simulated NPU, on a network of their own.

Run as `PYTHONPATH=tests python3 -m virtual_edge COMMAND`. Standard library only,
Python >= 3.11; only the command `pods` needs the Kubernetes client.
"""
