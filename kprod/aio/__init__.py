"""The producer for asyncio: `AsyncProducer`."""

from kprod.aio.async_producer import AsyncProducer

__all__ = ["AsyncProducer"]
