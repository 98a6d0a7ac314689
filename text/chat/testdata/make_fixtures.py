"""Writes constructs.json: templates of each construct, and what jinja2 makes
of them with the settings of transformers.

    python3 make_fixtures.py > constructs.json     (transformers 5, jinja2 3.1)

Each entry has a template, the variables' name, and "text" with "generated"
(code points of {% generation %}), or "error": the message of raise_exception()
or true where anything else is raised.
"""

import json
import sys

import jinja2
from transformers.utils import chat_template_utils

VARIABLES = {
    "none": {},
    "values": {
        "s": "Hello, World",
        "u": "ÀÉ straße ΑΣ ὈΔΥΣΣΕΎΣ ǆ ﬁn İ 漢字 😀\t'q' \"d\" \\ \u00a0x\u2028y",
        "empty": "",
        "lines": "one\n  two\r\n\nthree\x0bfour\n",
        "html": "<a href='x'>&\"</a>",
        "i": 7,
        "n": -3,
        "big": 9007199254740993,
        "f": 2.5,
        "floats": [
            0.1, 1e16, 1e-5, 123456789012345680.0, 1.0, -0.0, 1e22, 0.0001,
            1.5e300, 12345.678, 5e-324, 100.0, 0.30000000000000004,
        ],
        "yes": True,
        "no": False,
        "nothing": None,
        "list": [3, 1, 2],
        "words": ["pear", "Apple", "fig", "apple", "Fig"],
        "nested": [1, [2, "x'y", None], {"k": [True, 1.0]}],
        "d": {"b": 1, "a": [1, 2], "items": "own", "C": None, "é": "ü"},
        "rows": [
            {"name": "x", "size": 3, "in": {"deep": [5, 6]}},
            {"name": "y", "size": 1, "in": {"deep": [7, 8]}, "flag": True},
            {"name": "z", "size": 2, "in": {"deep": [9]}, "flag": False},
        ],
        "none_list": [],
    },
}

CASES = {
    "none": [
        # White space.
        "a\n{% if true %}\n  b\n{% endif %}\nc\n",
        "a\n  {%- if true -%}\n  b\n  {%- endif -%}\n c\n\n",
        "  {% if true %} x {% endif %}  \n",
        "x  {% if true %} y{% endif %}",
        "\n  {%+ if true %}z{% endif +%}\nq",
        "a {{- ' b ' -}} c {{ 'd' }}\n e",
        "a\u00a0\u3000{{- 'b' -}}\u2003\n c",
        "a\n  {# note #}\n  b {#- n -#}  c {#+ n +#}\n d",
        "{#- {% if %} -#} x {# a #}{# b #}\n{% set x = 1 %}\n\n{{ x }}",
        "a\r\nb\rc\n{% raw %}\n {{ x }} {% if %}\n{% endraw %}\nd",
        "a {%- raw -%}  {{ x }}  {%- endraw -%} b",
        "  {% raw %}y{% endraw %} \n  {%- raw %} {% x %} {% endraw +%}\n.",
        "{%raw%}{% endraw x %}{%endraw%}",
        "{{ 'a' }}{{ 'b' }}\n{{ 'c' }}\n\n{{ 'd' }}",
        "{{\n'x'\n~\n'y'\n}}",
        "{%\nif\ntrue\n%}\nq\n{%\nendif\n%}\n",
        "{{ {'a': {'b': 1}}['a']['b'] }}{{ {'x': 1}}}",
        "{% set x = '%}' %}{{ x }}{{ '}}' }}{{ \"{{\" }}",
        "\n\n  {% set a = 1 %}  \n  {% set b = 2 %}text\n",
        # Literals.
        r"{{ 'a\n\t\\\'\"\x41\u00e9\U0001F600\101\q\a'|tojson }}{{ 'x\
y' }}",
        "{{ 1_000 + 0x1f + 0b101 + 0o17 }} {{ 1.5e3 }} {{ 2e-3 }} {{ 1_0.2_5 }}",
        "{{ 'a' 'b' \"c\" }} {{ [1, 2,] }} {{ (1,) }} {{ () }} {{ (1, 'x') }}",
        "{{ true }} {{ True }} {{ none }} {{ None }} {{ false }}",
        "{{ {'a': 1, 'b': [1, 2.0], 'a': 2} }} {{ {} }} {{ [] }} {{ {1: 2, none: 3} }}",
        "{{ 1, 2 }} {{ 'x', }}",
        # Arithmetic.
        "{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7 / 2 }} {{ 2 ** 10 }}",
        "{{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 7.5 % -2 }} {{ 2 ** -1 }} {{ 2 ** 0.5 }} {{ 1e16 + 1 }}",
        "{{ 1 + 2 * 3 - 4 / 2 }} {{ (1 + 2) * 3 }} {{ -2 ** 2 }} {{ 2 ** 3 ** 2 }} {{ - 3 + + 4 }}",
        "{{ true + true }} {{ 'ab' * 3 }} {{ 2 * [1, 2] }} {{ 'a' * -1 }}|{{ [1] + [2] }} {{ (1,) + (2,) }}",
        "{{ 'a' ~ 1 ~ 2.5 ~ none ~ true ~ [1] ~ missing }}",
        "{{ '%s and %d: %.2f %r %%' % ('a', 3, 2.5, 'q') }} {{ '%(x)s' % {'x': 1} }} {{ 'n %s' % 5 }}",
        "{{ 1 / 0 }}", "{{ 1 // 0 }}", "{{ 1 + 'a' }}", "{{ 'a' + 1 }}", "{{ none + 1 }}",
        "{{ [] + () }}", "{{ -'a' }}", "{{ '%d' % 'a' }}", "{{ '%s %s' % 1 }}", "{{ '%s' % (1, 2) }}",
        # Comparisons and logic.
        "{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 == true }} {{ 1 != 2 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }}",
        "{{ 'b' in 'abc' }} {{ 'x' not in 'abc' }} {{ 1 in [1, 2] }} {{ 'k' in {'k': 1} }} {{ '' in 'a' }} {{ 2 not in (1, 2) }}",
        "{{ 0 or 'x' }} {{ 'a' and 'b' }} {{ '' and 1 }}| {{ not '' }} {{ not not 1 }} {{ none or false or 0 }}",
        "{{ 'a' if true else 'b' }} {{ 'a' if false else 'b' if false else 'c' }} [{{ 'a' if false }}]",
        "{{ not 1 == 2 }} {{ 1 if not 1 in [2] else 3 }} {{ 1 in [1] == true }}",
        "{{ [1, [2, {'a': 1}]] == [1.0, [2, {'a': true}]] }} {{ {'a': 1, 'b': 2} == {'b': 2, 'a': 1} }} {{ (1,) == [1] }}",
        "{{ 9007199254740993 == 9007199254740992.0 }} {{ 9007199254740993 > 9007199254740992.0 }} {{ 1 < 1.5 }}",
        "{{ 'a' < 1 }}", "{{ none < 1 }}", "{{ 1 in 'a' }}", "{{ 1 in 5 }}", "{{ [] in {} }}",
        # Undefined.
        "[{{ x }}] {{ x is defined }} {{ x is undefined }} {{ x == y }} {{ x == none }} {{ not x }} {{ x|length }} {{ x|list }}",
        "{% for a in x %}a{% else %}none{% endfor %} {{ x ~ 'a' }} {{ [x] }} {{ 'a' in x }} {{ x in [x] }} {{ x|string }}|",
        "{{ x|default('d') }} {{ ''|default('d') }}| {{ ''|default('d', true) }} {{ none|default('d') }} {{ x|d }}| {{ {}.a|default(1) }}",
        "{{ x.y }}", "{{ x['y'] }}", "{{ x + 1 }}", "{{ x() }}", "{{ x < 1 }}", "{{ -x }}", "{{ x[0:1] }}",
        "{{ x|tojson }}", "{{ x.y is defined }}", "{{ none.a }}|{{ none.a.b }}", "{{ {}.a.b }}", "{{ [1][3] }}|{{ 'abc'[9] }}|{{ 5['a'] }}",
        "{{ '' is defined }}{{ none is defined }} {{ (x is defined) and x }} {{ x is string }}{{ x is sequence }}{{ x is iterable }}{{ x is mapping }}",
        "{{ x is none }}{{ x is false }}{{ x|trim }}{{ x|upper }}{{ x|join(',') }}|{{ x|replace('a', 'b') }}|{{ x|first }}|",
        "{{ 'a'.join(x) }}", "{{ 'a' + x }}", "{{ 'abc'.split(x) }}", "{{ x|items|list }}",
        # Statements.
        "{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}",
        "{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}",
        "{% set ns = namespace(x=1, y='a') %}{% for i in range(3) %}{% set ns.x = ns.x + i %}{% set ns.z = i %}{% endfor %}{{ ns.x }} {{ ns.z }} {{ ns.q is defined }} {{ ns }} {{ ns['y'] }}",
        "{% set a, b = 1, [2] %}{{ a }}{{ b }}{% set (c, (d, e)) = (3, (4, 5)) %}{{ c + d + e }}",
        "{% set a, b = [1] %}", "{% set x.y = 1 %}", "{% set x = {} %}{% set x.y = 1 %}",
        "{% set x %}a{% set y = 2 %}{{ y }}\n b{% endset %}[{{ x }}]{{ y is defined }}",
        "{% set x | upper | trim %} abc {% endset %}[{{ x }}]",
        "{% if 0 %}a{% elif '' %}b{% elif [0] %}c{% else %}d{% endif %}{% if none %}{% else %}e{% endif %}",
        "{% with a = 1, b = 2 %}{{ a + b }}{% set a = 5 %}{{ a }}{% endwith %}{{ a is defined }}",
        "{% filter upper %}abc{{ 'd' }}{% endfilter %}{% filter replace('a', 'b')|trim %} aa {% endfilter %}",
        # Loops.
        "{% for i in [1, 2, 3] %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }} {% endfor %}",
        "{% for i in 'abc' %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }}{{ loop.previtem is defined }} {% endfor %}",
        "{% for i in range(5) %}{{ loop.cycle('a', 'b') }}{{ loop.changed(i // 2) }} {% endfor %}",
        "{% for i in range(10) if i % 2 %}{{ i }}/{{ loop.index }}/{{ loop.length }} {% else %}no{% endfor %}{% for i in [] %}{% else %}none{% endfor %}",
        "{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}",
        "{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }}{% if not loop.last %}, {% endif %}{% endfor %} {% for k in {'x': 1} %}{{ k }}{% endfor %}",
        "{% for a in [1, 2] %}{% for b in 'xy' %}{{ loop.index }}{{ a }}{{ b }} {% endfor %}{{ loop.index }} {% endfor %}{{ loop is defined }}",
        "{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
        "{% for i in 5 %}{% endfor %}", "{% for i in none %}{% endfor %}", "{% for a, b in [1] %}{% endfor %}",
        "{% for i in [1, 2]: %}{{ i }}{% endfor %}",
        "{{ range(3)|list }} {{ range(1, 10, 3)|list }} {{ range(5, 0, -2)|list }} {{ range(3)|length }} {{ range(5)[1:3]|list }} {{ range(3)[1] }} {{ 2 in range(3) }}",
        "{{ range(1000000) }}", "{{ range(1, 2, 0) }}", "{{ range('a') }}",
        # Macros.
        "{% macro m(a, b=2, c='x') %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(c=5, a=4) }}{{ m() }}",
        "{% macro m(a, b=a) %}{{ b }}{% endmacro %}{{ m(3) }}{{ m(3, b=none) }}",
        "{% macro m(n) %}{% if n > 0 %}{{ n }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(5) }}",
        "{% set x = 1 %}{% macro m() %}{{ x }}{% set x = 9 %}{% endmacro %}{% set x = 2 %}{{ m() }}{{ x }}",
        "{% macro m() %}{{ later }}{% endmacro %}{% set later = 'L' %}{{ m() }}",
        "{% for i in [1, 2] %}{% macro m() %}{{ i }}{{ loop.index }}{% endmacro %}{{ m() }}{% endfor %}{{ m is defined }}",
        "{% macro outer(x) %}<{{ caller(x + 1) }}>{% endmacro %}{% call(y) outer(1) %}{{ y }}!{% endcall %}",
        "{% macro w() %}({{ caller() }}){% endmacro %}{% call w() %}in{% call w() %}ner{% endcall %}{% endcall %}",
        "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=1) }}",
        "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}", "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}",
        "{% macro m(a) %}\n  {{- a }}\n{% endmacro %}{{ m('x') | upper | tojson }}",
        "{% macro m(x) %}{{ x }}{% endmacro %}{{ m(*[1]) }}{{ m(**{'x': 2}) }}{{ [m(1), m(2)] }}",
        # Functions.
        "{{ dict(a=1, b=2) }} {{ dict({'x': 1}, y=2) }} {{ dict([('k', 'v')]) }} {{ dict() }}",
        "{{ raise_exception('it is ' ~ 5) }}", "{% if false %}{{ raise_exception('x') }}{% endif %}fine",
        "{{ strftime_now('') }}{{ strftime_now('%%') }}",
        # Generation.
        "é{% generation %}a{{ 'ü' }}{% endgeneration %}b\n{% generation %}\n  c\n{% endgeneration %}\nd",
        "{% for i in range(3) %}<{{ i }}>{% generation %}{{ i }}é{% set q = i %}{% endgeneration %}{{ q is defined }}{% endfor %}",
        "{% macro m() %}ab{% generation %}cd{% endgeneration %}{% endmacro %}é{{ m() }}é{{ m() }}",
        "{% generation %}x{% generation %}y{% endgeneration %}z{% endgeneration %}{%- generation -%} w {%- endgeneration -%} v",
        "{% set t %}q{% generation %}r{% endgeneration %}{% endset %}é{{ t }}{{ t }}",
        # Refused as jinja2 refuses them.
        "{% if %}", "{% if x %}", "{% endif %}", "{{ }}", "{{ x", "{# x", "{% raw %}x", "{{ a b }}", "{{ 'a }}", "{{ [1 }}",
        "{% for x %}{% endfor %}", "{{ a.1.b. }}", "{% macro m(a=1, b) %}{% endmacro %}", "{% set true = 1 %}", "{% foo %}",
        "{{ x|nofilter }}", "{{ x is notest }}", "{% break %}", "{{ f(a=1, 2) }}", "{{ ) }}", "{{ x is defined is string }}",
    ],
    "values": [
        "{{ s }} {{ u }} {{ i }} {{ f }} {{ yes }} {{ nothing }} {{ list }} {{ nested }} {{ d }}",
        "{{ [u] }} {{ [s, \"it's\", 'a\"b', 'both\\'\"'] }} {{ ['\\x00\\x7f\\u00ad\\n\\t\\r\\u200b\\ue000'] }}",
        "{{ floats }} {{ floats|tojson }}",
        "{{ d|tojson }} {{ nested|tojson }} {{ u|tojson }} {{ u|tojson(ensure_ascii=true) }} {{ html|tojson }} {{ lines|tojson }}",
        "{{ d|tojson(indent=2) }} {{ nested|tojson(indent=4) }} {{ none_list|tojson(indent=2) }} {{ {}|tojson(indent=1) }} {{ d|tojson(indent=0) }}",
        "{{ {'b': 1, 'a': {'z': 1, 'y': 2}}|tojson(sort_keys=true) }} {{ d|tojson(separators=(',', ':')) }} {{ d|tojson(indent='--', separators=[';', '=']) }}",
        "{{ {1: 2, none: 3, true: 4, 2.5: 5}|tojson }} {{ (1, 2)|tojson }} {{ '\\x7f\\x1f'|tojson }} {{ big|tojson }} {{ nothing|tojson }}",
        "{{ range(3)|tojson }}", "{{ d.items()|tojson }}", "{{ namespace()|tojson }}",
        # Indexing.
        "{{ s[0] }}{{ s[-1] }}{{ s[1:3] }}{{ s[::-1] }}{{ s[::2] }}{{ s[-3:] }}{{ s[:-3] }}{{ s[5:2] }}|{{ s[100:] }}|{{ s[3::-1] }}",
        "{{ u[0] }}{{ u[-1] }}{{ u[2:9] }}{{ u[::-1] }}{{ u[28:30] }}|{{ u[::7] }}",
        "{{ list[0] }} {{ list[-1] }} {{ list[1:] }} {{ list[::-1] }} {{ list[:2] }} {{ list[-2:-1] }} {{ list[::2] }} {{ list[5:] }} {{ (1, 2, 3)[1:] }}",
        "{{ d.a }} {{ d['a'] }} {{ d.items is callable }} {{ d['items'] }} {{ d.a.0 }} {{ d.a[1] }} {{ d.nope is defined }} {{ d['é'] }} {{ d[1] is defined }}",
        "{{ rows[0].in.deep[1] }} {{ rows[-1]['in']['deep'] }} {{ s.upper is defined }} {{ s.nope is defined }} {{ list.append is defined }}",
        "{{ d[1:2] }}", "{{ list['a'] }}|{{ s['a'] }}|{{ i.x }}|", "{{ list[1.5] }}|", "{{ s[::0] }}", "{{ s['a':] }}",
        # Methods of str.
        "{{ u.upper() }} {{ u.lower() }} {{ u.title() }} {{ u.capitalize() }} {{ 'ΑΣ ΑΣ.Σ ΣΑ'.lower() }} {{ \"they're ǆ ß\".title() }}",
        "[{{ '  a b  '.strip() }}] [{{ '  a '.lstrip() }}] [{{ ' a  '.rstrip() }}] [{{ 'xxaxx'.strip('x') }}] [{{ 'abcba'.lstrip('ab') }}] [{{ '\u00a0\u3000x\u2028'.strip() }}] [{{ 'ééaé'.rstrip('é') }}]",
        "{{ 'a,b,,c'.split(',') }} {{ ' a  b\tc '.split() }} {{ 'a,b,c'.split(',', 1) }} {{ ''.split() }} {{ ''.split(',') }} {{ ' a  b c '.split(none, 1) }} {{ ' a  b c '.rsplit(none, 1) }} {{ 'aaa'.split('aa') }}",
        "{{ 'a,b,c'.rsplit(',', 1) }} {{ 'aaa'.rsplit('aa') }} {{ 'a-b-c'.partition('-') }} {{ 'a-b-c'.rpartition('-') }} {{ 'abc'.partition('x') }} {{ 'abc'.rpartition('x') }}",
        "{{ lines.splitlines() }} {{ lines.splitlines(true) }} {{ 'a\\u2028b\\x1cc'.splitlines() }} {{ ''.splitlines() }}",
        "{{ s.startswith('He') }} {{ s.endswith(('x', 'ld')) }} {{ s.startswith('lo', 3) }} {{ s.endswith('Hell', 0, 4) }} {{ s.startswith('') }} {{ s.startswith(()) }}",
        "{{ s.find('o') }} {{ s.find('o', 5) }} {{ s.rfind('o') }} {{ s.find('zz') }} {{ s.index('W') }} {{ u.find('漢') }} {{ s.count('l') }} {{ 'aaaa'.count('aa') }} {{ s.count('') }} {{ s.find('o', -3) }} {{ 'abab'.rindex('ab') }}",
        "{{ s.replace('l', 'L') }} {{ s.replace('l', 'L', 1) }} {{ 'ab'.replace('', '-') }} {{ 'ab'.replace('', '-', 2) }} {{ 'aaa'.replace('aa', 'b') }} {{ 'é'.replace('', '.') }}",
        "{{ '-'.join(['a', 'b']) }} {{ ','.join('xyz') }} {{ ', '.join(words) }} {{ ''.join([]) }}| {{ '/'.join(d) }}",
        "{{ 'abc'.removeprefix('a') }} {{ 'abc'.removesuffix('bc') }} {{ 'abc'.removeprefix('x') }} {{ 'x'.ljust(4, '.') }} {{ 'x'.rjust(4) }} {{ '-5'.zfill(4) }} {{ 'é'.rjust(3, 'ü') }}",
        "{{ 'abc'.isalpha() }}{{ 'ab1'.isalnum() }}{{ '12'.isdigit() }}{{ '²'.isdigit() }}{{ '²'.isdecimal() }}{{ '½'.isnumeric() }}{{ ' \\t'.isspace() }}{{ ''.isspace() }}{{ 'Ab'.isupper() }}{{ 'AB1'.isupper() }}{{ 'ab'.islower() }}{{ '1'.islower() }}{{ 'é'.isascii() }}{{ 'ǅ'.isupper() }}{{ '漢'.isalpha() }}",
        "{{ s.index('zz') }}", "{{ s.split('') }}", "{{ s.nope() }}", "{{ ','.join([1]) }}", "{{ s.replace('a') }}", "{{ s.startswith(1) }}", "{{ s.upper(1) }}",
        # Methods of dict and list.
        "{{ d.keys()|list }} {{ d.values()|list }} {{ d.items() }} {{ d.keys() }} {{ d.get('a') }} {{ d.get('q') }} {{ d.get('q', 5) }} {{ d.get('C', 5) }} {{ d|length }} {{ d.items()|list|length }}",
        "{% for k, v in d.items() %}{{ k }}:{{ v }};{% endfor %} {{ 'b' in d.keys() }} {{ d.items()|first }} {{ d.copy() == d }}",
        "{{ list.index(1) }} {{ list.count(3) }} {{ (1, 1).count(1) }}", "{{ list.append(1) }}", "{{ d.update({}) }}", "{{ d.pop('a') }}", "{{ d.items()[0] }}|", "{{ d.get([]) }}", "{{ list.index(9) }}",
        # Filters.
        "{{ s|upper }} {{ s|lower }} {{ s|title }} {{ 'hello wOrld-foo (bar'|title }} {{ 'hELLO'|capitalize }} [{{ '  x '|trim }}] [{{ 'xax'|trim('x') }}] {{ i|string + 'a' }} {{ s|length }} {{ u|length }} {{ d|count }} {{ 5|upper }}",
        "{{ words|join(', ') }} {{ list|join }} {{ rows|join('/', attribute='name') }} {{ nested|join('-') }} {{ 'abc'|join('.') }} {{ d|join(',') }}",
        "{{ list|sort }} {{ list|sort(reverse=true) }} {{ words|sort }} {{ words|sort(case_sensitive=true) }} {{ rows|sort(attribute='size')|map(attribute='name')|list }} {{ words|sort(reverse=true) }} {{ rows|sort(attribute='in.deep')|map(attribute='size')|join }}",
        "{{ {'b': 1, 'A': 2, 'c': 0}|dictsort }} {{ {'b': 1, 'A': 2, 'c': 0}|dictsort(true) }} {{ {'b': 1, 'A': 2, 'c': 0}|dictsort(by='value') }} {{ {'b': 1, 'A': 2}|dictsort(reverse=true) }}",
        "{{ list|first }} {{ list|last }} {{ []|first is defined }} {{ 'abc'|last }} {{ list|reverse|list }} {{ 'abc'|reverse }} {{ list|max }} {{ list|min }} {{ words|max }} {{ list|sum }} {{ rows|sum(attribute='size') }} {{ rows|max(attribute='size') }} {{ []|max is defined }}",
        "{{ rows|map(attribute='name')|list }} {{ rows|map(attribute='nope', default='-')|list }} {{ rows|map(attribute='in.deep.0')|list }} {{ words|map('upper')|list }} {{ words|map('replace', 'p', 'P')|join(' ') }} {{ ['a ', ' b']|map('trim')|list }}",
        "{{ list|select('odd')|list }} {{ list|reject('odd')|list }} {{ list|select('gt', 1)|list }} {{ [0, 1, '', 'a']|select|list }} {{ rows|selectattr('flag')|map(attribute='name')|list }} {{ rows|selectattr('flag', 'defined')|list|length }} {{ rows|rejectattr('name', 'equalto', 'x')|map(attribute='name')|list }} {{ rows|selectattr('size', 'in', [1, 2])|list|length }} {{ rows|rejectattr('flag')|list|length }}",
        "{{ words|unique|list }} {{ [1, 1.0, true, 2]|unique|list }} {{ words|unique(case_sensitive=true)|list }} {{ rows|unique(attribute='size')|list|length }}",
        "{{ 'a\nb\n\nc'|indent }} {{ 'a\nb'|indent(2, true) }} {{ 'a\n\nb'|indent(2, blank=true) }} {{ 'a\nb'|indent('>>') }} {{ ''|indent }}|",
        "{{ '5'|int }} {{ 'x'|int }} {{ 'x'|int(3) }} {{ ' 12 '|int }} {{ 3.9|int }} {{ '3.9'|int }} {{ '-2'|int }} {{ none|int(1) }} {{ '1_0'|int }} {{ true|int }} {{ '1.5'|float }} {{ 'x'|float }} {{ 2|float }} {{ 'x'|float(1.5) }} {{ '1e3'|int }}",
        "{{ 2.5|round }} {{ 3.5|round }} {{ 2.675|round(2) }} {{ 2.3|round(0, 'ceil') }} {{ 2.7|round(method='floor') }} {{ 5|round }} {{ n|abs }} {{ f|abs }} {{ (-2.5)|abs }} {{ 1234.5678|round(1) }}",
        "{{ s|replace('l', 'L') }} {{ s|replace('l', 'L', 1) }} {{ 505|replace(5, 6) }} {{ d|items|list }} {{ 'abc'|list }} {{ '%s-%s'|format('a', 1) }} {{ '%(x)s'|format(x=3) }}",
        "{{ html|escape }} {{ html|e|e }} {{ html|forceescape }} {{ html|safe }} {{ html|safe + '<' }} {{ '<' + html|safe }} {{ (html|safe) ~ '<' }} {{ [html|safe] }} {{ html|safe|length }} {{ (html|safe).strip() + '&' }} {{ (html|safe)|string + '<' }} {{ (html|safe)|tojson }} {{ (html|safe|trim) + '>' }} {{ (html|e)[0:4] + '<' }} {{ ('<b>'|safe) * 2 }} {{ ('a'|safe) == 'a' }} {{ ('a<'|safe).split('<')[0] + '<' }} {{ (html|safe).replace('a', '<') }} {{ ('<'|safe).join(['>', '&'|safe]) }}",
        "{{ d|attr('get') is callable }} {{ d|attr('b') is defined }}",
        "{{ 5|length }}", "{{ rows|map('nope')|list }}", "{{ list|sort(attribute='x') }} {{ rows|sort(attribute='flag,name')|length }}|", "{{ rows|sort(attribute='in.nope,size')|map(attribute='name')|list }}", "{{ [1, 'a']|sort }}", "{{ 5|items|list }}", "{{ list|map|list }}", "{{ s|indent(foo=1) }}", "{{ list|map('upper')|length }}", "{{ s|join(1, 2, 3) }}",
        # Tests.
        "{{ s is string }}{{ i is string }}{{ d is mapping }}{{ list is sequence }}{{ s is sequence }}{{ d is sequence }}{{ i is sequence }}{{ list is iterable }}{{ i is iterable }}{{ d.items() is iterable }}{{ d.items() is sequence }}{{ (list|map('string')) is sequence }}{{ nothing is iterable }}",
        "{{ i is number }}{{ f is number }}{{ yes is number }}{{ i is integer }}{{ yes is integer }}{{ f is float }}{{ yes is boolean }}{{ i is boolean }}{{ yes is true }}{{ no is false }}{{ i is true }}{{ nothing is none }}{{ nothing is not none }}{{ nope is not defined }}",
        "{{ i is odd }}{{ i is even }}{{ i is divisibleby 7 }}{{ i is divisibleby(2) }}{{ i is eq 7 }}{{ i is sameas 7 }}{{ list is sameas list }}{{ i is in [7] }}{{ s is eq('Hello, World') }}{{ i is gt 3 }}{{ i is lt(3) }}{{ i is ge 7 }}{{ i is ne 7 }}{{ 'ab' is lower }}{{ 'AB' is upper }}{{ s is callable }}{{ range is callable }}{{ html|safe is escaped }}",
        "{% if s is string and i is not string or nope is defined %}y{% endif %}{{ 'a' if s is defined and s else 'b' }}{{ not s is string }}{{ s is string == true }}",
        "{{ i in [7] and s is string }} {{ (s is string)|string + '!' }} {{ s|upper is string }} {{ s is not string|string }}",
        "{{ namespace(d) is mapping }} {{ namespace(a=1) == namespace(a=1) }} {{ namespace is callable }}",
        "{{ s.__class__ }}", "{{ s.__class__ is defined }}", "{{ d.__class__.__name__ }}", "{{ namespace(_a=1) }}", "{{ d._x is defined }}",
        "{% for row in rows if row.flag is defined and row.flag %}{{ row.name }}{% endfor %}{% for row in rows|sort(attribute='size') %}{{ loop.index }}{{ row.name }}{% if loop.nextitem is defined %},{{ loop.nextitem.name }}{% endif %}{% endfor %}",
        "{%- set ns = namespace(text='') -%}{%- for row in rows[::-1] -%}{%- set ns.text = ns.text + row.name + (row.size * 2)|string -%}{%- endfor -%}{{ ns.text }}{{ rows[::-1][0]['name'] }}",
        "{% set x = rows | map(attribute='name') %}{{ x|list }}{{ x|list }}",
        "{{ loop }}", "{{ nope.x if nope is defined else 'none' }} {{ (nope or {}).x is defined }} {{ rows[0].get('flag', 'no') }} {{ rows[0].nope or 'else' }}",
    ],
}


def render(template, variables):
    compiled = chat_template_utils._compile_jinja_template(template)
    blocks, spans = [], []
    with compiled.environment.activate_tracker(blocks, spans):
        for block in compiled.generate(**variables):
            blocks.append(block)
    return "".join(blocks), spans


entries = []
for name, templates in CASES.items():
    for template in templates:
        entry = {"variables": name, "template": template}
        try:
            entry["text"], entry["generated"] = render(
                template, chat_template_utils._plain_template_data(VARIABLES[name])
            )
        except jinja2.exceptions.TemplateError as error:
            is_message = type(error) is jinja2.exceptions.TemplateError
            entry["error"] = str(error) if is_message else True
        except Exception:
            entry["error"] = True
        if "error" not in entry and " at 0x" in entry["text"]:
            raise SystemExit(f"an address in the text of {template!r}")
        entries.append(entry)
json.dump(
    {"variables": VARIABLES, "entries": entries},
    sys.stdout,
    indent=1,
    ensure_ascii=False,
)
print()
