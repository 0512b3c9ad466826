"""OpenAI Responses: its request, stream and answer to the neutral model and back."""

from translators.dialect import Dialect
from translators.responses.answer import answer, read_answer
from translators.responses.decoder import Decoder
from translators.responses.encoder import Encoder
from translators.responses.envelope import envelope
from translators.responses.native import KNOWN, native_answer, native_failure, native_request, watch
from translators.responses.render import render
from translators.responses.request import parse, peek

__all__ = ["DIALECT"]

DIALECT = Dialect(
    name="responses",
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
