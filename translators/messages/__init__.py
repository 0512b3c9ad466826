"""Anthropic Messages, as a record of functions."""

from translators.dialect import Dialect
from translators.messages.answer import answer, read_answer
from translators.messages.decoder import Decoder
from translators.messages.encoder import Encoder
from translators.messages.envelope import envelope
from translators.messages.native import KNOWN, native_answer, native_failure, native_request, watch
from translators.messages.render import render
from translators.messages.request import parse, peek

__all__ = ["DIALECT"]

DIALECT = Dialect(
    name="messages",
    peek=peek,
    parse=parse,
    render=render,
    decoder=Decoder,
    encoder=Encoder,
    read_answer=read_answer,
    answer=answer,
    envelope=envelope,
    native_request=native_request,
    watch=watch,
    native_answer=native_answer,
    native_failure=native_failure,
    known=KNOWN,
)
