"""The producer for asyncio: `AsyncProducer`."""

from kprod.aio.producer import AsyncProducer

__all__ = ["AsyncProducer"]
