# The fields that a leader rewrites in a batch; nothing here is for other compiled modules.
