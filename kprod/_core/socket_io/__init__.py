"""System calls on sockets and descriptors that never block."""
