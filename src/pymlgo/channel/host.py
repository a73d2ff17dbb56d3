"""`host`: one compile in which every question is answered by a function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from pymlgo.channel.conversation import Advise, AdviseFor
from pymlgo.channel.owned import ChannelOptions, Flags, HostResult, open_channel
from pymlgo.errors import ChannelError
from pymlgo.toolchain.process import Argument


def host(
    command: Sequence[Argument],
    advise: Advise | None = None,
    *,
    flags: Flags,
    on_header: AdviseFor | None = None,
    **options: Unpack[ChannelOptions],
) -> HostResult:
    """Run `command` and answer its compiler's questions.

    Args:
        command: the compile, without the channel's flags.
        advise: the advice for a decision; whatever it raises ends the compiler and comes out here.
        flags: the channel's flags, from its base path.
        on_header: makes `advise` anew from the header of each compiler that asks; give one of the two.
        options: as for `open_channel`.

    Raises:
        ChannelError: the compiler broke the protocol, fell silent or was killed; or advice was refused.
        ToolchainError: the compiler cannot be started.
    """
    answering = advise_for(advise, on_header)
    with open_channel(command, flags=flags, **options) as channel:
        channel.answer_all(answering)
        return channel.finish()


def advise_for(advise: Advise | None, on_header: AdviseFor | None) -> AdviseFor:
    """One of the two ways to say how to answer, as the second.

    Raises:
        ChannelError: both are given, or neither.
    """
    if on_header is not None and advise is None:
        return on_header
    if advise is not None and on_header is None:
        return lambda _: advise
    raise ChannelError("how to answer is said by advise or by on_header: give one of them")
