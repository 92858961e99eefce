"""The style of the documents' page: light or dark as the reader's system is, without fonts or pictures from elsewhere."""

STYLE = """
:root{color-scheme:light dark;--ink:#1c2024;--dim:#5b6570;--paper:#fff;--soft:#f4f6f8;--line:#d9dee3;--link:#0b5cad}
@media (prefers-color-scheme:dark){
:root{--ink:#e4e8ec;--dim:#9aa5b1;--paper:#14171a;--soft:#1e2327;--line:#343b42;--link:#7ab8ff}}
*{box-sizing:border-box}
html{scroll-padding-top:1rem}
body{margin:0;display:grid;grid-template-columns:19rem minmax(0,1fr);color:var(--ink);background:var(--paper);
font:16px/1.55 system-ui,sans-serif}
nav{position:sticky;top:0;height:100vh;overflow:auto;padding:1.5rem 1rem;border-right:1px solid var(--line);font-size:.85rem}
nav ul{list-style:none;margin:0;padding:0}
nav li>ul{margin:.2rem 0 1rem}
nav a{display:block;padding:.15rem 0;text-decoration:none;overflow-wrap:anywhere}
main{padding:1.5rem 2.5rem 6rem;max-width:60rem;min-width:0}
a{color:var(--link)}
h1,h2,h3,h4{line-height:1.25}
h2{margin-top:3.5rem;padding-bottom:.3rem;border-bottom:2px solid var(--line)}
h3{margin:2.5rem 0 .5rem;overflow-wrap:anywhere}
h4{margin:1.4rem 0 .4rem;color:var(--dim)}
code,pre{font-family:ui-monospace,monospace;font-size:.88em}
pre{background:var(--soft);border:1px solid var(--line);border-radius:6px;padding:.8rem 1rem;overflow:auto}
.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.9rem}
th,td{text-align:left;vertical-align:top;padding:.35rem .7rem .35rem 0;border-bottom:1px solid var(--line)}
td:first-child code{white-space:nowrap}
em{color:var(--dim)}
summary{cursor:pointer;color:var(--link);margin-top:1rem}
article:target>h3{outline:2px solid var(--link);outline-offset:4px}
h3 b,nav b{font-size:.75em;padding:.1em .45em;border-radius:4px;color:#fff;background:#586470}
b.get{background:#1d6b3a}b.post{background:#0b5cad}b.put{background:#8a5300}b.delete{background:#a8232d}
@media (max-width:50rem){
body{display:block}
nav{position:static;height:auto;border-right:0;border-bottom:1px solid var(--line)}
main{padding:1rem}}
@media print{nav{display:none}body{display:block}}
"""
