"""The Jinja template of the HTML report. Every value is escaped by the template engine."""

FRAGMENT = """\
<div class="kf">
<p class="kf-verdict kf-{{ state }}">{{ verdict }}</p>
{% if groups %}
<table><thead><tr><th>severity</th><th>rule</th><th>where</th><th>count</th><th>what is wrong</th>
<th>what to do</th></tr></thead><tbody>
{% for group in groups %}
<tr><td class="kf-{{ group.severity }}">{{ group.severity }}</td>
<td>{% if links %}<a href="#{{ group.rule }}">{{ group.rule }}</a>{% else %}{{ group.rule }}\
{% endif %}</td>
<td>{% if group.anchor %}<a href="#{{ group.anchor }}">{{ group.where }}</a>{% else %}\
{{ group.where }}{% endif %}</td>
<td class="kf-n">{{ group.count }}</td><td>{{ group.what }}</td><td>{{ group.advice }}</td></tr>
{% endfor %}
</tbody></table>
{% endif %}
{% if more_groups %}<p>and {{ more_groups }} more, by rule and partition</p>{% endif %}
{% if not_checked %}
<h2>Not checked</h2>
<ul>
{% for row in not_checked %}<li>{{ row.what }}{% if row.path %} ({{ row.path }}){% endif %}: \
{{ row.why }}</li>
{% endfor %}
</ul>
{% endif %}
{% if more_not_checked %}<p>and {{ more_not_checked }} more</p>{% endif %}
</div>
"""

PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" \
content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{{ title }}</title>
<style>
:root { color-scheme: light dark; --error: #c62828; --warning: #b26a00; --note: #1565c0;
  --line: #8884; --soft: #8881; --good: #2e7d32; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 64rem;
  padding: 0 1rem; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
h3 { font-size: 1rem; margin: 1.2rem 0 .2rem; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .5rem; text-align: left;
  vertical-align: top; overflow-wrap: anywhere; }
th { font-weight: 600; white-space: nowrap; }
td:first-child, td:nth-child(2) { white-space: nowrap; }
.kf-n { text-align: right; font-variant-numeric: tabular-nums; }
.kf-verdict { border-left: .4rem solid; padding: .5rem 1rem; background: var(--soft);
  font-size: 1.1rem; }
.kf-error { color: var(--error); } .kf-warning { color: var(--warning); }
.kf-note { color: var(--note); } .kf-healthy { color: var(--good); }
section { border: 1px solid var(--line); border-radius: .4rem; padding: .2rem 1rem 1rem;
  margin: 1rem 0; }
svg { width: 100%; height: auto; display: block; margin: .5rem 0; }
svg .box { fill: #90a4ae; } svg .lane { fill: #7e57c2; }
svg .error { fill: var(--error); } svg .warning { fill: var(--warning); }
svg .note { fill: var(--note); } svg text { font-size: 11px; fill: currentColor; }
.facts { color: #888; font-size: .9rem; margin: .2rem 0; }
ul.found { margin: .2rem 0; padding-left: 1.2rem; }
code, pre { font-family: ui-monospace, monospace; font-size: .85rem; overflow-wrap: anywhere; }
dl { margin: .3rem 0; } dt { font-weight: 600; } dd { margin: 0 0 .4rem 1rem; }
</style>
</head>
<body>
<h1>{{ title }}</h1>
<p class="facts">{{ paths }}<br>{{ time }}</p>
{{ fragment }}
{% if sections %}<h2>Findings by partition</h2>{% endif %}
{% for section in sections %}
<section id="{{ section.anchor }}">
<h3>{{ section.name }}</h3>
<p class="facts">{{ section.log_dir }}</p>
{% if section.map %}
{% set map = section.map %}
<p class="facts">{{ map.size }}, {{ map.offsets }}{% if map.times %}, {{ map.times }}{% endif %}\
{% if map.more %}; the oldest {{ map.more }} segments are not drawn{% endif %}</p>
<svg viewBox="0 0 {{ map.width }} {{ map.height }}" role="img" \
aria-label="segments and findings of {{ section.name }}">
{% for box in map.boxes %}<rect class="box" x="{{ '%.2f' % box.x }}" y="16" \
width="{{ '%.2f' % box.width }}" height="24"><title>{{ box.label }}</title></rect>
{% endfor %}
{% for mark in map.marks %}<rect class="{{ mark.severity }}" x="{{ '%.2f' % mark.x }}" y="8" \
width="3" height="40"><title>{{ mark.label }}</title></rect>
{% endfor %}
{% for lane in map.lanes %}<rect class="lane" x="{{ '%.2f' % lane.x }}" y="{{ lane.y }}" \
width="{{ '%.2f' % lane.width }}" height="8"><title>{{ lane.label }}</title></rect>
{% endfor %}
</svg>
{% if map.lanes %}<ul class="found">
{% for lane in map.lanes %}<li>transaction: {{ lane.label }}</li>
{% endfor %}</ul>{% endif %}
{% endif %}
{% for group in section.groups %}
<h3><span class="kf-{{ group.severity }}">{{ group.severity }}</span> \
<a href="#{{ group.rule }}">{{ group.rule }}</a>: {{ group.title }} ({{ group.count }})</h3>
<ul class="found">
{% for row in group.rows %}<li><code>{{ row.place }}</code>: found {{ row.found }}, \
expected {{ row.expected }}{% if row.accepted is not none %} \
<em>accepted: {{ row.accepted }}</em>{% endif %}
{% if row.records %}<pre>{% for record in row.records %}offset {{ record.offset }}: \
key {{ record.key }}, value {{ record.value }}
{% endfor %}</pre>{% endif %}</li>
{% endfor %}
{% if group.more %}<li>and {{ group.more }} more</li>{% endif %}
</ul>
<dl><dt>On a restart</dt><dd>{{ group.on_restart }}</dd></dl>
{% endfor %}
</section>
{% endfor %}
{% if more_sections %}<p>{{ more_sections }} more partitions have findings.</p>{% endif %}
{% if rules %}<h2>Rules</h2>{% endif %}
{% for rule in rules %}
<section id="{{ rule.id }}"><h3>{{ rule.id }}: {{ rule.title }}</h3>
<dl><dt>On a restart</dt><dd>{{ rule.on_restart }}</dd>
<dt>What to do</dt><dd>{{ rule.what_to_do }}</dd></dl></section>
{% endfor %}
</body>
</html>
"""
