"""The host's end of LLVM's interactive channel: own a compiler, read its observations, answer with advice."""

from __future__ import annotations

from pymlgo.channel.conversation import Advise, AdviseFor, Listener
from pymlgo.channel.host import host
from pymlgo.channel.observation import Observation
from pymlgo.channel.owned import Channel, HostResult, open_channel
from pymlgo.channel.watch import Limits

__all__ = ["Advise", "AdviseFor", "Channel", "HostResult", "Limits", "Listener", "Observation", "host", "open_channel"]
