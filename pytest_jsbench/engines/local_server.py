"""The local engine's model server: llama.cpp in a process of its own, which ends with the one that started it."""

from __future__ import annotations

import functools
import os
import secrets
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The model that the server loads, and how wide it opens."""

    #: path of a GGUF file
    model: str
    #: the only name by which the server gives the model away
    alias: str
    #: what a caller must bear; never on a command line
    key: str = field(repr=False, default_factory=secrets.token_hex)
    #: sequences generated at once
    slots: int
    #: tokens of prompt and answer in each slot
    context: int
    threads: int


def address_of(settings: dict[str, Any]) -> str:
    """Start the server; it serves until its process ends."""
    address: str = _server(ServerSettings(**settings)).listening_address
    return address


@functools.cache
def _server(settings: ServerSettings) -> Any:
    # read when the library loads; with the default, threads spin and a busy machine comes to a halt
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = settings.model
    params.model_alias = {settings.alias}
    params.api_keys = [settings.key]
    # no page in a browser is told what is answered, nor that there is a server
    params.cors_origins = params.cors_methods = params.cors_headers = ""
    params.cors_credentials = False
    params.cors_origins_explicit = True
    params.n_parallel = settings.slots
    params.n_ctx = settings.slots * settings.context
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings.threads
    # it splits a sum by the longest sequence of the batch: an answer would depend on its neighbours
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    params.cache_ram_mib = 0  # the default keeps up to 8 GiB of old prompts
    # an application says nothing of it, and its answer would depend on the calls before
    params.cache_prompt = False
    params.verbosity = 0
    params.warmup = params.ui = params.fit_params = False
    return xllamacpp.Server(params)
