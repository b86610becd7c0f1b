# The types of fetch_request.py, which is compiled as it stands: none, it has functions only.
