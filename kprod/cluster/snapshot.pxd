# The types of snapshot.py, which is compiled as it stands: none, its values are named tuples.
