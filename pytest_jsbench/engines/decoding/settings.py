"""What a user said of a decoding library and of the embedded model under it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_jsbench.core.generations import EngineInfo, ResponseFormat
from pytest_jsbench.engines.decoding.child import LibrarySettings
from pytest_jsbench.engines.local import engine as local
from pytest_jsbench.engines.options import Options, choose_format
from pytest_jsbench.engines.requirements import package_version, require_package

if TYPE_CHECKING:
    from pytest_jsbench.engines.base import EngineConfig

FORMATS = (ResponseFormat.JSON_SCHEMA,)
#: of the server, as the engine `local` takes them
_SERVER_OPTIONS = frozenset({"slots", "context", "threads", "start_timeout", "top_p"})
#: put there by `prepare`, for the processes that only know the model's alias
MODEL_FILE = "model_file"
OPTIONS = _SERVER_OPTIONS | {"bounded", "compile_timeout", "mask_timeout", "memory"}
_GIGABYTE = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingSettings:
    """How a library is asked, and how long it may take."""

    #: whether schemas are narrowed (`bounded`) before the library sees them
    bounded: bool
    #: seconds for one grammar
    compile_timeout: int
    #: seconds for the masks of one request to the model
    mask_timeout: int
    #: gigabytes that the library may use
    memory: int
    #: None: of llama.cpp its own default, and else all tokens that may come
    top_p: float | None
    slots: int
    start_timeout: int

    @classmethod
    def from_config(cls, config: EngineConfig) -> DecodingSettings:
        """Read what a user said; EngineError for what cannot be done."""
        said = {name: value for name, value in config.options.items() if name != MODEL_FILE}
        options = Options(replace(config, options=said), OPTIONS)
        choose_format(config, FORMATS)
        server = local.LocalSettings.from_config(server_config(config))
        return cls(
            bounded=options.flag("bounded", default=False),
            compile_timeout=options.count("compile_timeout", default=20),
            mask_timeout=options.count("mask_timeout", default=20),
            memory=options.count("memory", default=6),
            top_p=server.top_p,
            slots=server.slots,
            start_timeout=server.start_timeout,
        )


def server_config(config: EngineConfig) -> EngineConfig:
    """The part of the configuration that is the embedded model's server's."""
    options = {name: value for name, value in config.options.items() if name in _SERVER_OPTIONS}
    return replace(config, options=options)


def model_file(config: EngineConfig) -> str:
    """The GGUF file, also for a configuration that knows the model by its alias."""
    given = config.options.get(MODEL_FILE)
    return str(given) if given is not None else str(local.find_model_file(config).resolve())


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryPackage:
    """The package of a library, and the extra that brings it."""

    #: the library's name, which is the engine's and the extra's
    library: str
    module: str
    distribution: str
    minimum: tuple[int, ...]
    #: what the engine needs beside it, of the same extra
    beside: tuple[str, ...] = ()

    def require(self, config: EngineConfig) -> None:
        """See that it is there, without importing it."""
        require_package(config.name, self.module, extra=self.library, minimum=self.minimum)
        for package in self.beside:
            require_package(config.name, package, extra=self.library)

    def to_settings(self, config: EngineConfig, settings: DecodingSettings) -> LibrarySettings:
        """What its process is told."""
        memory = settings.memory * _GIGABYTE
        return LibrarySettings(library=self.library, model=model_file(config), memory=memory)

    def describe(self, config: EngineConfig, *, streaming: bool) -> EngineInfo:
        """Who an engine over this library is."""
        settings = DecodingSettings.from_config(config)
        served = local.FACTORY.describe(server_config(config))
        return EngineInfo(
            engine=config.name,
            model=served.model,
            response_format=ResponseFormat.JSON_SCHEMA,
            streaming=streaming,
            context=served.context,
            details={
                self.distribution: package_version(self.distribution),
                "xllamacpp": package_version("xllamacpp"),
                "bounded": settings.bounded,
                "compile_timeout": settings.compile_timeout,
                **local.top_p_said(settings.top_p),
            },
        )
