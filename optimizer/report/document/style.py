"""The style of a report: for screens in light and dark, wide and narrow, and for A4."""

from __future__ import annotations

from optimizer.report.drawings.colours import colours_css
from optimizer.report.drawings.svg import FONT

_RULES = """
*{box-sizing:border-box}
html{color-scheme:light dark;-webkit-text-size-adjust:100%}
body{margin:0;background:var(--sw-ground);color:var(--sw-ink);font:16px/1.5 FONT;overflow-wrap:anywhere}
.scroll{overflow-x:auto;overflow-wrap:break-word}
main{max-width:772px;margin:0 auto;padding:28px 26px 48px}
h1{font-size:27px;line-height:1.25;margin:6px 0 10px;text-wrap:balance}
h2{font-size:19px;margin:38px 0 10px;padding-top:12px;border-top:1px solid var(--sw-line)}
h3{font-size:16px;margin:20px 0 6px}
p{margin:0 0 10px}
ul{margin:0 0 10px;padding-left:20px}
li{margin:0 0 5px}
.eyebrow,.note,figcaption,footer{color:var(--sw-muted);font-size:14px}
.good{color:var(--sw-good);font-weight:600}
.bad{color:var(--sw-bad);font-weight:600}
.warning{border-left:4px solid var(--sw-bad);background:var(--sw-panel);padding:8px 12px;margin:0 0 10px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:10px;margin:18px 0}
.tile{background:var(--sw-panel);border-radius:8px;padding:12px 14px}
.tile b{display:block;font-size:23px;line-height:1.2}
.tile span{color:var(--sw-muted);font-size:14px}
figure{margin:14px 0}
figure svg{display:block}
.narrow{display:none}
dl{display:grid;grid-template-columns:minmax(130px,max-content) 1fr;gap:5px 18px;margin:0 0 10px}
dt{color:var(--sw-muted)}
dd{margin:0}
table{border-collapse:collapse;width:100%;font-size:15px;margin:8px 0 12px}
th{text-align:left;color:var(--sw-muted);font-weight:500;border-bottom:1px solid var(--sw-line);padding:5px 14px 5px 0}
td{vertical-align:top;border-bottom:1px solid var(--sw-panel);padding:6px 14px 6px 0}
th:last-child,td:last-child{padding-right:0}
.nowrap{white-space:nowrap}
.r{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
pre{background:var(--sw-panel);border-radius:8px;padding:12px 14px;font:13px/1.45 ui-monospace,Menlo,Consolas,monospace;
white-space:pre-wrap;overflow-wrap:anywhere;margin:0 0 12px}
code{font:14px ui-monospace,Menlo,Consolas,monospace}
small{color:var(--sw-muted);font-size:13.5px;display:block}
footer{margin-top:40px;border-top:1px solid var(--sw-line);padding-top:12px}
@media (max-width:600px){
main{padding:18px 16px 36px}
h1{font-size:23px}
.wide{display:none}
.narrow{display:block}
dl{grid-template-columns:1fr;gap:0}
dd{margin-bottom:8px}
thead{display:none}
.scroll{overflow-wrap:anywhere}
tr{display:block;border-bottom:1px solid var(--sw-line);padding:7px 0}
td{display:block;border:0;padding:1px 0}
td[data-label]::before{content:attr(data-label) ": ";color:var(--sw-muted)}
.r{text-align:left;white-space:normal}
td:empty{display:none}
}
@media print{
@page{size:A4;margin:16mm 15mm}
body{font-size:10.5pt}
main{max-width:none;padding:0}
h1{font-size:18pt}
h2{font-size:13pt;break-after:avoid}
h3{break-after:avoid}
table{font-size:9.5pt}
tr,figure,.tiles,.tile,.warning,li,dd{break-inside:avoid}
.tile,pre,.warning{border:1px solid var(--sw-line)}
pre{font-size:8.5pt}
.wide{display:block}
.narrow{display:none}
}
"""


def style() -> str:
    """Return the CSS of a report."""
    return colours_css() + _RULES.replace("FONT", FONT).replace("\n", "")
