# The types of api_versions.py, which is compiled as it stands.


cpdef int choose_version(object api_key, object advertised, tuple wanted) except -1
