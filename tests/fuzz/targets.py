"""The targets, by name. A new one is a module with a `TARGET`, named here."""

from tests.fuzz import (
    arrow_target,
    batch_target,
    block_target,
    codec_target,
    message_set_target,
)
from tests.fuzz.target import Target

TARGETS: dict[str, Target] = {
    module.TARGET.name: module.TARGET
    for module in (batch_target, block_target, message_set_target, codec_target, arrow_target)
}
