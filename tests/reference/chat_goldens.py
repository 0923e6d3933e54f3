#!/usr/bin/env python3
"""Writes tests/fixtures/chat/goldens.json: conversations as transformers renders them, or the error it raises.

    pip install transformers==5.24.0 tokenizers==0.23.3 jinja2==3.1.6
    tests/reference/chat_goldens.py

The templates are the published ones, which lie beside the goldens (`published/*.jinja`; README.md there says whence), and a few
more in the families' manner. Templates that ask for the date get NOW; who compares puts the current date in its place.
"""

import json
import pathlib
from datetime import datetime

from jinja2.exceptions import TemplateError
from transformers.utils import chat_template_utils
from transformers.utils.chat_template_utils import render_jinja_template

OUT = pathlib.Path(__file__).resolve().parent.parent / "fixtures" / "chat" / "goldens.json"
PUBLISHED = OUT.parent / "published"
NOW = "26 Jul 2031"  # as Llama 3.2's template writes it


class Clock(datetime):
    """What `strftime_now` reads."""

    @classmethod
    def now(cls, tz=None):
        return datetime.strptime(NOW, "%d %b %Y")


chat_template_utils.datetime = Clock

QWEN3 = r"""{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\n\n' }}
    {%- endif %}
    {{- "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with function signatures within <tools></tools> XML tags:\n<tools>" }}
    {%- for tool in tools %}
        {{- "\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\n</tools>\n\nFor each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call><|im_end|>\n" }}
{%- else %}
    {%- if messages[0].role == 'system' %}
        {{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}
    {%- endif %}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning_content = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index %}
            {%- if loop.last or (not loop.last and reasoning_content) %}
                {{- '<|im_start|>' + message.role + '\n<think>\n' + reasoning_content.strip('\n') + '\n</think>\n\n' + content.lstrip('\n') }}
            {%- else %}
                {{- '<|im_start|>' + message.role + '\n' + content }}
            {%- endif %}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}
                    {{- '\n' }}
                {%- endif %}
                {%- if tool_call.function %}
                    {%- set tool_call = tool_call.function %}
                {%- endif %}
                {{- '<tool_call>\n{"name": "' }}
                {{- tool_call.name }}
                {{- '", "arguments": ' }}
                {%- if tool_call.arguments is string %}
                    {{- tool_call.arguments }}
                {%- else %}
                    {{- tool_call.arguments | tojson }}
                {%- endif %}
                {{- '}\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\n<tool_response>\n' }}
        {{- content }}
        {{- '\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\n\n</think>\n\n' }}
    {%- endif %}
{%- endif %}"""

LLAMA = r"""{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not tools_in_user_message is defined %}
    {%- set tools_in_user_message = true %}
{%- endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = "now" if strftime_now("%d %b %Y")|length == 11 else "bad" %}
    {%- endif %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}

{#- The system message comes first, if there is one. #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\n\n" }}
{%- if tools is not none %}
    {{- "Environment: ipython\n" }}
{%- endif %}
{{- "Today: " + date_string + "\n\n" }}
{%- if tools is not none and not tools_in_user_message %}
    {{- "These functions may be called:\n\n" }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\n\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- if tools_in_user_message and not tools is none %}
    {%- if messages | length != 0 %}
        {%- set first_user_message = messages[0]['content']|trim %}
        {%- set messages = messages[1:] %}
    {%- else %}
        {{- raise_exception("Tools need a first user message, and there is none!") }}
    {%- endif %}
    {{- '<|start_header_id|>user<|end_header_id|>\n\n' -}}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\n\n" }}
    {%- endfor %}
    {{- first_user_message + "<|eot_id|>"}}
{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("One tool call at a time!") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' -}}
        {{- '{"name": "' + tool_call.name + '", ' }}
        {{- '"parameters": ' }}
        {{- tool_call.arguments | tojson }}
        {{- "}" }}
        {{- "<|eot_id|>" }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\n\n" }}
        {%- if message.content is mapping or (message.content is iterable and message.content is not string) %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %}
"""

LFM2 = r"""{{- bos_token -}}
{%- set keep_past_thinking = keep_past_thinking | default(false) -%}
{%- set ns = namespace(system_prompt="") -%}
{%- if messages[0]["role"] == "system" -%}
    {%- set ns.system_prompt = messages[0]["content"] -%}
    {%- set messages = messages[1:] -%}
{%- endif -%}
{%- if tools -%}
    {%- set ns.system_prompt = ns.system_prompt + ("\n" if ns.system_prompt else "") + "List of tools: [" -%}
    {%- for tool in tools -%}
        {%- if tool is not string -%}
            {%- set tool = tool | tojson -%}
        {%- endif -%}
        {%- set ns.system_prompt = ns.system_prompt + tool -%}
        {%- if not loop.last -%}
            {%- set ns.system_prompt = ns.system_prompt + ", " -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set ns.system_prompt = ns.system_prompt + "]" -%}
{%- endif -%}
{%- if ns.system_prompt -%}
    {{- "<|im_start|>system\n" + ns.system_prompt + "<|im_end|>\n" -}}
{%- endif -%}
{%- set ns.last_assistant_index = -1 -%}
{%- for message in messages -%}
    {%- if message["role"] == "assistant" -%}
        {%- set ns.last_assistant_index = loop.index0 -%}
    {%- endif -%}
{%- endfor -%}
{%- for message in messages -%}
    {{- "<|im_start|>" + message["role"] + "\n" -}}
    {%- set content = message["content"] -%}
    {%- if content is not string -%}
        {%- set content = content | tojson -%}
    {%- endif -%}
    {%- if message["role"] == "assistant" and not keep_past_thinking and loop.index0 != ns.last_assistant_index -%}
        {%- if "</think>" in content -%}
            {%- set content = content.split("</think>")[-1] | trim -%}
        {%- endif -%}
    {%- endif -%}
    {%- if message.role == "tool" -%}
        {{- "<|tool_response_start|>" + content + "<|tool_response_end|>" -}}
    {%- else -%}
        {{- content -}}
    {%- endif -%}
    {{- "<|im_end|>\n" -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- "<|im_start|>assistant\n" -}}
{%- endif -%}
"""

TEMPLATES = {"qwen3-later": QWEN3, "llama-manner": LLAMA, "lfm2-manner": LFM2}

U = lambda content: {"role": "user", "content": content}
A = lambda content, **more: {"role": "assistant", "content": content, **more}
S = lambda content: {"role": "system", "content": content}
T = lambda content: {"role": "tool", "content": content}


def call(name, arguments):
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "description": "The weather, \"now\" <b>& later</b>: 天気 ☀",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1, "default": None}},
                       "required": ["city"], "additionalProperties": False}}},
    {"type": "function", "function": {"name": "noop", "parameters": {"type": "object", "properties": {}}, "strict": True, "x": [1.0, 1e20, 1e-7, -3, []]}},
]

CONVERSATIONS = {
    "one": ([U("What are the three primary colors?")], {}),
    "spaces": ([S("  Be terse.\n"), U(" \n Hi \t"), A("\n\nHello.  "), U("Bye!\n\n")], {}),
    "multi": ([U("1"), A("2"), U("3"), A("4"), U("5")], {}),
    "no_prompt": ([U("Hi"), A("Hello")], {"add_generation_prompt": False}),
    "unicode": ([S("Être 日本 👨‍👩‍👧 \u2028 \u00a0"), U("'quotes' \"double\" \\back\\ {{ braces }} {% tags %}")], {}),
    "tools": ([S("You call tools."), U("Weather in Paris?")], {"tools": TOOLS}),
    "tools_no_system": ([U("Weather in Paris?")], {"tools": TOOLS}),
    "tool_calls": ([U("Weather in Paris?"), A("", tool_calls=[call("get_weather", {"city": "Paris", "days": 2, "f": 0.1, "n": None, "ok": True})]),
                    T("{\"t\": 21}"), A("21 degrees."), U("Thanks")], {"tools": TOOLS}),
    "parallel_calls": ([U("Two"), A("Sure.", tool_calls=[call("a", {"x": "é\n"}), call("b", {})]), T("1"), T("2"), A("Done")], {"tools": TOOLS}),
    "thinking": ([U("q1"), A("<think>\nhm\n</think>\n\na1"), U("q2"), A("<think>\n\nso\n</think>\n\na2\n")], {"add_generation_prompt": False}),
    "no_thinking": ([U("q")], {"variables": {"enable_thinking": False}}),
    "reasoning": ([U("q"), A("a", reasoning_content="because\n"), U("again")], {}),
    "parts": ([U([{"type": "text", "text": " look "}, {"type": "image"}, {"type": "text", "text": "here"}])], {}),
    "bad_order": ([U("a"), U("b")], {}),
    "only_system": ([S("x")], {}),
    "null_content": ([U("a"), A(None), U("b")], {}),
    "mapping_content": ([U("a"), T({"k": [1, {"z": None}]})], {}),
    "date": ([U("hi")], {"variables": {"date_string": "26 Jul 2024", "tools_in_user_message": False}, "tools": TOOLS[:1]}),
    "empty": ([], {}),
    "assistant_first": ([A("Hello"), U("Hi")], {}),
    "two_systems": ([S("first"), U("a"), S("second"), U("b")], {}),
    "system_parts": ([S([{"type": "text", "text": "Be brief."}]), U("x")], {}),
    "two_calls_at_once": ([U("q"), A(None, tool_calls=[call("f", {}), call("g", {"k": [1, 2]})])], {"tools": TOOLS}),
    "arguments_as_text": ([U("q"), A("", tool_calls=[call("f", '{"a": 1}')]), T("ok"), U("and?")], {"tools": TOOLS}),
    "ipython": ([U("q"), {"role": "ipython", "content": {"output": "é"}}, {"role": "ipython", "content": "text"}], {}),
    "tool_results_only": ([T("1"), T("2")], {}),
    "many_turns": ([m for i in range(12) for m in (U(f" question {i}\n"), A(f"\nanswer {i} "))] + [U("last")], {}),
    "thinking_off_with_tools": ([S("s"), U("q")], {"tools": TOOLS, "variables": {"enable_thinking": False, "date_string": "1 Jan 2025"}}),
    "think_tags_in_user_text": ([U("<think>x</think> <tool_response>y</tool_response>"), A("a"), U("<tool_response>z</tool_response>")], {}),
    "builtin_tools": ([S("s"), U("q"), A("", tool_calls=[call("brave_search", {"query": "x"})]), {"role": "ipython", "content": {"output": "é"}}],
                      {"tools": TOOLS[:1], "variables": {"builtin_tools": ["brave_search", "code_interpreter"]}}),
    "builtin_call_of_two": ([U("q"), A("", tool_calls=[call("wolfram_alpha", {"query": "1 + \"1\"", "n": 2})])],
                            {"variables": {"builtin_tools": ["wolfram_alpha"]}}),
    "thinking_field": ([U("q"), A("a", thinking="hm"), U("more"), A("b", thinking="so")], {"add_generation_prompt": False}),
    "past_thinking_kept": ([U("q"), A("<think>hm</think> a"), U("more"), A("<think>so</think> b")],
                           {"add_generation_prompt": False, "variables": {"keep_past_thinking": True, "preserve_thinking": True}}),
    "tools_in_system": ([S("s"), U("q")], {"tools": TOOLS, "variables": {"tools_in_user_message": False}}),
    "tools_without_user": ([S("s"), A("a")], {"tools": TOOLS}),
    "unknown_role": ([U("a"), {"role": "narrator", "content": "b"}], {}),
}

VALUE = {"b": True, "n": None, "f": 1.5, "i": 12, "big": 12345678901234567890, "s": "it's \"q\" \\ \n é", "l": [1, "a", [False]], "m": {"z": 1, "a": 2}, "e": {}, "el": []}
MESSAGES = [{"role": "user", "content": VALUE}, {"role": "assistant", "content": "  Some Text, with WORDS.  "}]
HEAD = "{% set v = messages[0].content %}{% set t = messages[1].content %}"

# One line each; the value is what the reference renders.
EXPRESSIONS = r"""
{{ v.b }} {{ v.n }} {{ v.f }} {{ v.i }} {{ v.big }} {{ v.s }}
{{ v.l }} {{ v.m }} {{ v.e }} {{ v.el }}
{{ v }}
{{ 1e16 }} {{ 1e-5 }} {{ 0.1 + 0.2 }} {{ 3.0 }} {{ 7 / 2 }} {{ 6 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 2 ** 10 }} {{ 2 ** -1 }}
{{ true }} {{ True }} {{ none }} {{ None }} {{ false and 1 }} {{ 0 or 'x' }} {{ not 1 }}
{{ undefined_thing }}|{{ v.missing }}|{{ v['missing'] }}|{{ undefined_thing is defined }}|{{ undefined_thing | default('d') }}
{{ undefined_thing.x }}
{{ undefined_thing + 'x' }}
{{ 'a' + 1 }}
{{ 'a' ~ 1 ~ true ~ none ~ 1.0 }}
{{ v | tojson }}
{{ v | tojson(indent=2) }}
{{ v | tojson(indent=4, ensure_ascii=True) }}
{{ v | tojson(separators=(',', ':'), sort_keys=true) }}
{{ v.s | tojson }} {{ 1 | tojson }} {{ none | tojson }} {{ "<a>&'" | tojson }}
{{ undefined_thing | tojson }}
{{ t.strip() }}|{{ t.lstrip() }}|{{ t.rstrip() }}|{{ t.strip(' .S') }}|{{ t | trim }}
{{ t.upper() }}|{{ t.lower() }}|{{ t.title() }}|{{ t.strip().capitalize() }}
{{ t.split() }}|{{ t.split(' ') }}|{{ t.split(',', 1) }}|{{ 'a,b,c'.rsplit(',', 1) }}|{{ 'a b  c'.rsplit(None, 1) }}
{{ t.startswith('  S') }} {{ t.endswith(('x', '  ')) }} {{ t.find('Text') }} {{ t.replace('e', 'E', 1) }} {{ t.count('e') }}
{{ 'a\nb\r\nc'.splitlines() }} {{ ', '.join(['a', 'b']) }} {{ 'x'.isdigit() }} {{ '12'.isdigit() }} {{ 'ab'.isalpha() }}
{{ 'abc'.removeprefix('a') }} {{ 'abc'.removesuffix('c') }} {{ 'a=b=c'.partition('=') }} {{ 'a=b=c'.rpartition('=') }}
{{ v.m.items() | list }} {{ v.m.keys() | list }} {{ v.m.values() | list }} {{ v.m.get('z') }} {{ v.m.get('q') }} {{ v.m.get('q', 5) }}
{% for k, x in v.m.items() %}{{ k }}={{ x }};{% endfor %}
{% for k in v.m %}{{ k }},{% endfor %}{% for k, x in v.m | items %}{{ k }}{{ x }}{% endfor %}{% for k, x in v.m | dictsort %}{{ k }}{{ x }}{% endfor %}
{{ v.l[0] }} {{ v.l[-1] }} {{ v.l[1:] }} {{ v.l[::-1] }} {{ v.l[:-1] }} {{ t[2:6] }} {{ t[::-1] }} {{ v.l[7] }}
{{ v.l | length }} {{ v.m | length }} {{ t | length }} {{ v.l | first }} {{ v.l | last }} {{ [3,1,2] | sort }} {{ [3,1,2] | max }} {{ [1,2] | sum }}
{{ ['a', 'b'] | join('-') }} {{ [1, true, none] | join(',') }} {{ 'abc' | upper }} {{ 'a b' | title }} {{ 'abc' | first }} {{ 'x' | indent }}
{{ 'a\nb\nc' | indent(2) }}|{{ 'a\nb' | indent(2, true) }}|{{ 'a' | string }}{{ 1 | string }}{{ true | string }}{{ '5' | int + 1 }}{{ 'x' | int }}{{ '1.5' | float }}
{{ 3.7 | round }} {{ 3.14159 | round(2) }} {{ -3 | abs }} {{ 'a-b' | replace('-', '+') }} {{ [1,2,1] | unique | list }} {{ [1,2] | reverse | list }}
{{ messages | map(attribute='role') | list }} {{ messages | selectattr('role', 'equalto', 'user') | list | length }} {{ messages | rejectattr('role', '==', 'user') | map(attribute='role') | join }}
{{ [1,2,3] | select('odd') | list }} {{ [0,1,none] | select | list }} {{ ['a','B'] | map('upper') | list }} {{ range(3) | list }} {{ range(5, 0, -2) | list }}
{{ v is mapping }} {{ v.l is iterable }} {{ v.l is sequence }} {{ t is string }} {{ v.i is number }} {{ v.b is boolean }} {{ v.n is none }} {{ v.i is integer }} {{ v.f is float }} {{ t is iterable }} {{ v.m is iterable }}
{{ 'a' in 'abc' }} {{ 'z' in v.m }} {{ 1 in v.l }} {{ 'a' not in v.l }} {{ 1 == 1.0 }} {{ 'a' < 'b' }} {{ v.b is true }} {{ 1 is sameas 1 }}
{{ 'x' if v.b else 'y' }} {{ 'x' if v.n }}| {{ (1, 2) }} {{ (1,) }} {{ {'a': 1, 'b': [true]} }} {{ {'k': 'v'}['k'] }}
{%- set ns = namespace(x=1, l=[]) -%}{%- for i in range(3) -%}{%- set ns.x = ns.x + i -%}{%- set ns.l = ns.l + [i] -%}{%- endfor -%}{{ ns.x }} {{ ns.l }}
{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}
{% for i in [1, 2, 3, 4] %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %}
{% for i in [1, 2, 3] if i != 2 %}{{ loop.index }}/{{ loop.length }}:{{ i }}{{ ',' if not loop.last }}{% else %}none{% endfor %}{% for i in [] %}x{% else %}empty{% endfor %}
{% for i in [1, 2] %}{{ loop.index0 }}{{ loop.revindex }}{{ loop.first }}{{ loop.last }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('a', 'b') }}{% endfor %}
{% macro m(a, b='B') %}[{{ a }}{{ b }}{{ caller() if caller }}]{% endmacro %}{{ m(1) }}{{ m(1, b=2) }}{% call m('x') %}body{% endcall %}
{% set x %}block {{ 1 }}{% endset %}{{ x }}|{{ x | upper }}{% filter upper %}filtered{% endfilter %}
{% generation %}made{% endgeneration %}{%- generation -%} trimmed {%- endgeneration -%}
{% raw %}{{ raw }}{% endraw %}{# comment #}{{ '{{' }}
{{ "%s is %d" | format("x", 3) }} {{ "%.2f" | format(1.005) }} {{ 'a{}b'.format(1) }}
{{ '%s' % 'x' }}
{{ "tab\tnl\nq\"q'\\ \u00e9 \x41" }}
{{ raise_exception('own message') }}
{{ t.nope() }}
{{ v.l.append(1) }}
{{ nope() }}
{{ 1 | nope }}
{{ 1 / 0 }}
{{ bos_token }}{{ eos_token }}{{ pad_token }}|{{ add_generation_prompt }}|{{ tools }}|{{ documents }}
{{ extra }} {{ extra.k }} {{ extra is defined }}
{%- if true -%}  a  {%- endif %}  b {%- if true +%} c {% endif -%}   d
{{ messages | length > 1 and messages[-1].role == 'assistant' }} {{ messages[-1]['content'] | trim | length }}
{{ [1, 2, 3, 4, 5] | batch(2) | list }} {{ [{'a': 1}, {'a': 2}] | map(attribute='a') | sum }} {{ [{'a': 1}] | groupby('a') | length }}
{{ 'A' | lower }} {{ 'hello world' | capitalize }} {{ 'a  b' | wordcount }} {{ '<a>' | e }} {{ '<a>' | escape }} {{ '<a>' | safe }}
{{ v.l + [4] }} {{ [1] * 3 }} {{ 'ab' * 2 }} {{ v.i > 3 and v.i < 20 }} {{ 1 < 2 < 3 }} {{ v.i is divisibleby 3 }} {{ v.i is even }}
{{ dict(a=1) }} {{ none is iterable }} {{ 1 is iterable }} {{ nope is iterable }} {{ '7' | int(3) }} {{ 'x' | int(3) }} {{ 'x' | float }} {{ '1e3' | int }} {{ true | int }} {{ 2 | float }}
""".strip("\n").split("\n")

# Several lines: how blocks eat whitespace.
LAYOUTS = [
    "{% if true %}\n  a\n{% endif %}\n b\n",
    "  {% if true %}\n  a\n  {% endif %}\n  b\n\n",
    "x  {% if true %}  y\n  {% endif %}  z\n",
    "{%- if true %}\n\n  a\n\n  {%- endif %}\n\nb\n",
    "a\n  {# c #}\n  b\n{#- d -#}\n  c\n",
    "{% for i in [1,2] %}\n  {{ i }}\n{% endfor %}\nend",
    "  {{ 1 }}\n  {{- 2 }}\n  {{ 3 -}}\n  4\n",
    "a\r\n{% if true %}\r\nb\r\n{% endif %}\r\nc\r\n",
    "\n\na\n\n\n",
    "{%+ if true %}\n a{%+ endif %}\n  {%+ if true +%}\n b {% endif %}",
]


def render(template, messages, tools=None, add_generation_prompt=True, variables=None):
    kwargs = dict(bos_token="<s>", eos_token="</s>", **(variables or {}))
    rendered, _ = render_jinja_template(
        conversations=[messages], tools=tools, chat_template=template, add_generation_prompt=add_generation_prompt, **kwargs,
    )
    return rendered[0]


def case(template, messages, source, **more):
    result = {"template": template, "chat": {"messages": messages, **more}}
    try:
        result["text"] = render(source, messages, **more)
    except Exception as e:  # noqa: BLE001 - whatever the reference raises is the expectation
        result["error"] = str(e) if type(e) is TemplateError else None
    return result


if __name__ == "__main__":
    sources, cases = dict(TEMPLATES), []
    published = {file.stem: file.read_text() for file in sorted(PUBLISHED.glob("*.jinja"))}
    for name, source in {**published, **TEMPLATES}.items():
        for what, (messages, more) in CONVERSATIONS.items():
            cases.append({"name": f"{name}/{what}", **case(name, messages, source, **more)})
    for i, line in enumerate(EXPRESSIONS):
        sources[f"e{i}"] = HEAD + line
        cases.append({"name": line, **case(f"e{i}", MESSAGES, HEAD + line, variables={"extra": {"k": [1.0]}})})
    for i, text in enumerate(LAYOUTS):
        sources[f"l{i}"] = text
        cases.append({"name": text, **case(f"l{i}", MESSAGES, text)})
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps({"now": NOW, "templates": sources, "cases": cases}, indent=1, ensure_ascii=True) + "\n")
    print(len(cases), "cases;", sum("error" in c for c in cases), "errors")
