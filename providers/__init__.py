"""Upstreams: transports, credentials and judgement. Plugins import `providers.api` and `translators` only."""
