"""The model, solved and simulated. Imports NumPy, SciPy, Numba and xarray, and nothing above it."""
