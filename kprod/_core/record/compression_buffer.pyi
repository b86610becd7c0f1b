from typing import final

@final
class CompressionBuffer: ...
