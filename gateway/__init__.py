"""The server: policy, state, command line. The only package that does I/O towards clients."""
