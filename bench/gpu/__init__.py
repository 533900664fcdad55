"""`python -m bench.gpu`: attention on a GPU, first whether it is right, then how long it takes."""
