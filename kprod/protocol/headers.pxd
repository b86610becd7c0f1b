# The types of headers.py, which is compiled as it stands.


cpdef tuple decode_response_header(object api_key, int version, object frame)
