"""Pure protocol translation between Chat Completions, Responses and Messages.

Everything below this package is synchronous and free of sockets, clocks, logging and configuration:
bytes and values in, bytes and values out. It needs the standard library and msgspec, nothing else.
"""
