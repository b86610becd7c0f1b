# The types of produce_response.py, which is compiled as it stands.

cimport cython
from libc.stdint cimport int64_t

from kprod.producer.batch cimport ProducerBatch


@cython.locals(answers=dict)
cpdef tuple read_responses(object body, object topic_names, int version)
cpdef dict named_acknowledgements(list listed, object topic_names, int version)
cpdef int64_t append_time_ms(ProducerBatch batch, int64_t log_append_time_ms) except? -1
