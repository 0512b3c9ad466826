"""The Chat Completions dialect, both as a client's protocol and as an upstream's."""

from translators.chat.answer import answer, read_answer
from translators.chat.decoder import decoder
from translators.chat.encoder import encoder
from translators.chat.envelope import envelope
from translators.chat.native import KNOWN, native_answer, native_failure, native_request, watch
from translators.chat.render import render
from translators.chat.request import parse, peek
from translators.dialect import Dialect

__all__ = ["DIALECT"]

DIALECT = Dialect(
    name="chat",
    peek=peek,
    parse=parse,
    render=render,
    decoder=decoder,
    encoder=encoder,
    read_answer=read_answer,
    answer=answer,
    envelope=envelope,
    native_request=native_request,
    watch=watch,
    native_answer=native_answer,
    native_failure=native_failure,
    known=KNOWN,
)
