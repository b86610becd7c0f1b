# The types of snapshot.py, which is compiled as it stands: none, dataclasses make its values.
