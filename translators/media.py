"""Images and files between data URIs and (media type, base64) pairs; nothing is ever fetched (S12)."""

import base64
import binascii
import re

from translators.conversation import Image
from translators.fault import refuse

__all__ = ["IMAGE_TYPES", "check_image", "data_uri", "image_from", "image_url", "split_data_uri"]

IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")

_DATA_URI = re.compile(r"data:([^;,]*);base64,(.*)\Z", re.DOTALL)


def data_uri(media_type: str, data: str) -> str:
    """Return base64 content as a data URI."""
    return f"data:{media_type};base64,{data}"


def split_data_uri(uri: str, at: str) -> tuple[str, str]:
    """Return (media type, base64 data) of a data URI; raises Refused(unsupported_content) for any other text."""
    found = _DATA_URI.match(uri)
    if not found or not found[1]:
        raise refuse(f"{at}: not a base64 data URI with a media type", param=at, code="unsupported_content")
    return found[1].lower(), found[2]


def image_from(url: str, detail: str | None, at: str) -> Image:
    """Return the image behind an OpenAI image URL: a link, or a data URI whose type and base64 are checked."""
    if url.startswith(("https://", "http://")):
        return Image(url=url, detail=detail)
    media_type, data = split_data_uri(url, at)
    check_image(media_type, data, at)
    return Image(media_type=media_type, data=data, detail=detail)


def check_image(media_type: str, data: str, at: str) -> None:
    """Raise Refused(unsupported_content) unless this is base64 of an image type that all three protocols take."""
    if media_type not in IMAGE_TYPES:
        raise refuse(f"{at}: images of type {media_type!r} are not supported", param=at, code="unsupported_content")
    try:
        content = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        content = b""
    if not content:
        raise refuse(f"{at}: the image is not valid base64", param=at, code="unsupported_content")


def image_url(image: Image) -> str:
    """Return an image as OpenAI's protocols take it."""
    return image.url or data_uri(image.media_type, image.data)
