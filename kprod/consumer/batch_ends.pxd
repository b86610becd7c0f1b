# The types of batch_ends.py, which is compiled as it stands: none, its results are named tuples.
