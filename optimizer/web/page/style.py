"""How the page looks: one style sheet, for light and dark, from 320 pixels up."""

from __future__ import annotations

from optimizer.report.drawings import colours_css

DARK = "body.body--dark"

SHEET = (
    colours_css("body", DARK)
    + r"""
body{--q-primary:#0067a3!important;--accent:#0067a3;--on-accent:#fff;--accent-soft:#e3f0f8;--warn:#7a4d00;--warn-ground:#fdf3dc;
  --good-ground:#def3ea;--bad-ground:#fbe4e2;background:var(--sw-panel);color:var(--sw-ink);
  font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif}
body.body--dark{--q-primary:#6cb8ea!important;--q-dark:#1b232c!important;--accent:#6cb8ea;--on-accent:#0b141c;--accent-soft:#1d3446;
  --warn:#f5cf85;--warn-ground:#3a2d12;--good-ground:#123a2d;--bad-ground:#44201d;--q-dark-page:#10161c;
  background:#10161c;color-scheme:dark}
body:not(.body--dark){color-scheme:light}
.nicegui-content{padding:0;display:block;max-width:none}
.q-page,.q-layout{min-height:0!important}
.unseen{position:absolute!important;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
.muted{color:var(--sw-muted)}.good{color:var(--sw-good)}.bad{color:var(--sw-bad)}
h1,h2,h3,p,ul,dl,dd{margin:0}
h1{font-size:20px;line-height:1.3;font-weight:650}h2{font-size:17px;font-weight:650;line-height:1.35;margin-bottom:8px}
h3{font-size:15px;font-weight:600;margin:10px 0 4px;line-height:1.4}
a{color:var(--accent)}
:focus-visible{outline:3px solid var(--accent)!important;outline-offset:2px}
.top{display:flex;gap:12px;align-items:center;padding:12px 24px;background:var(--sw-ground);
  border-bottom:1px solid var(--sw-line);flex-wrap:wrap}
.top .title{flex:1;min-width:200px}.top .title p{color:var(--sw-muted);font-size:13px}
.top .tools{display:flex;gap:8px;flex-wrap:wrap}
.columns{display:grid;grid-template-columns:400px minmax(0,1fr);gap:20px;max-width:1400px;margin:0 auto;
  padding:20px 24px;  align-items:start}
.aside,.answer{display:grid;gap:16px;min-width:0}
.card{background:var(--sw-ground);border:1px solid color-mix(in srgb,var(--sw-line) 55%,transparent);border-radius:10px;
  padding:16px 18px;min-width:0}
.card.inner{border:0;padding:8px 0 0;background:none}
details>summary{cursor:pointer;font-weight:600;padding:2px 0;list-style:none}
details>summary::-webkit-details-marker{display:none}
details>summary::before{content:"\25b8";display:inline-block;width:1.1em;color:var(--sw-muted);
  transition:transform .15s}
details[open]>summary::before{transform:rotate(90deg) translate(1px,2px)}
details.card[open]>summary{margin-bottom:8px}
details.inner>summary{font-weight:500;color:var(--sw-muted)}
.form{display:grid;gap:10px}
details.fields{border-top:1px solid color-mix(in srgb,var(--sw-line) 45%,transparent);padding-top:8px}
.grid{display:grid;grid-template-columns:1fr 1fr;gap:10px;padding:8px 0 2px}
.grid .wide{grid-column:1/-1}
.grid>*,.form>*{min-width:0}
.q-field__label{color:var(--sw-muted)}
.q-field--error .q-field__messages{color:var(--sw-bad);font-size:12.5px;line-height:1.35}
.q-field--outlined .q-field__control:before{border-color:var(--sw-line)}
.q-field__native::placeholder{color:var(--sw-muted);opacity:1}
.text-negative,.q-field--error .q-field__label{color:var(--sw-bad)!important}
.q-field__native,.q-field__input{color:var(--sw-ink)}
.q-chip{margin:2px}.q-select .q-field__input{min-width:40px!important}
.actions{display:flex;gap:10px;flex-wrap:wrap;align-items:center}
.form>.actions{position:sticky;bottom:0;background:var(--sw-ground);padding:10px 0;z-index:2}
.button{font:inherit;font-weight:600;border-radius:7px;padding:7px 14px;cursor:pointer;border:1px solid var(--accent);
  background:transparent;color:var(--accent);line-height:1.3;white-space:nowrap}
.button.primary{background:var(--accent);color:var(--on-accent);padding:9px 26px}
.button:hover{background:var(--accent-soft)}.button.primary:hover{filter:brightness(1.1);background:var(--accent)}
.button.heading{border:0;padding:2px 4px;margin:-2px -4px;color:inherit;text-align:inherit;white-space:normal}
.button[disabled]{opacity:.55;cursor:default}
.problems{color:var(--sw-bad);font-weight:500;white-space:pre-wrap;overflow-wrap:anywhere}
.problems:empty{display:none}
.badge{display:inline-block;border-radius:99px;padding:2px 12px;font-weight:650;font-size:13.5px}
.badge.optimal{background:var(--good-ground);color:var(--sw-good)}
.badge.feasible{background:var(--warn-ground);color:var(--warn)}
.badge.infeasible{background:var(--bad-ground);color:var(--sw-bad)}
.headline h2{position:absolute;clip-path:inset(50%);width:1px;height:1px;overflow:hidden}
.summary{font-size:18px;font-weight:600;margin:8px 0 12px;overflow-wrap:anywhere;line-height:1.35}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:14px;margin-bottom:10px}
.figures dt{color:var(--sw-muted);font-size:13px}.figures .number{font-size:25px;font-weight:650;line-height:1.2}
.figures .below{color:var(--sw-muted);font-size:13px;line-height:1.35}
.warnings{margin-top:10px;padding:8px 12px;border-radius:8px;background:var(--warn-ground);color:var(--warn)}
.warnings ul{list-style:none;padding:0}
ul{padding-left:20px;margin:0}ul.plain,ul.advice{list-style:none;padding:0}
li{overflow-wrap:anywhere}
ul.advice li{display:flex;gap:12px;justify-content:space-between;align-items:center;padding:9px 0;
  border-top:1px solid color-mix(in srgb,var(--sw-line) 40%,transparent)}
ul.advice li:first-child{border-top:0}
.busy{opacity:.55}
.drawing{margin:6px 0}.drawing svg{display:block;max-width:100%;height:auto;background:none}
.if-narrow{display:none}
.scrolls{overflow-x:auto;max-width:100%}
table{border-collapse:collapse;width:100%;font-size:13.5px}
th{font-weight:600;color:var(--sw-muted);vertical-align:bottom}
th,td{padding:6px 10px 6px 0;text-align:left;border-bottom:1px solid color-mix(in srgb,var(--sw-line) 40%,transparent)}
td{vertical-align:top}
th.right,td.right{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
td.left{min-width:9ch;overflow-wrap:break-word}td.left:last-child{min-width:34ch}td.left:first-child{white-space:nowrap}
.sliders{display:grid;grid-template-columns:repeat(auto-fit,minmax(250px,1fr));gap:10px 28px}
.lever-head{display:flex;justify-content:space-between;gap:8px;font-size:13.5px}
.lever-head span{color:var(--sw-muted)}
.lever input[type=range]{width:100%;height:28px;accent-color:var(--accent);cursor:pointer;margin:0}
.lever .q-field{margin:4px 0}
.result{min-height:52px;margin:8px 0;padding:10px 12px;border-radius:8px;background:var(--sw-panel)}
pre.code{margin:0;white-space:pre;overflow:auto;max-height:460px;padding:12px;border-radius:8px;background:var(--sw-panel);
  font:12.5px/1.5 ui-monospace,'SFMono-Regular',Menlo,Consolas,'DejaVu Sans Mono',monospace}
pre.report{font-size:11.5px;max-height:none}
.card>.actions{margin-top:10px}.mono textarea{font:12.5px/1.5 ui-monospace,Menlo,Consolas,monospace!important}
.q-textarea .q-field__label{background:var(--sw-ground);width:100%;z-index:1}
.tabs{display:flex;gap:6px;flex-wrap:wrap;margin-bottom:10px}
.tabs .button[aria-pressed=true]{background:var(--accent);color:var(--on-accent)}
.file-head{display:flex;gap:10px;align-items:center;justify-content:space-between;flex-wrap:wrap;margin:8px 0 6px}
.empty{text-align:center;padding:42px 20px}.empty .actions{justify-content:center;margin-top:16px}
.nicegui-skip-link:focus{z-index:9999}
@media(max-width:900px){.columns{grid-template-columns:minmax(0,1fr);padding:12px}.top{padding:10px 14px}
  .card{padding:14px}.if-wide{display:none}.if-narrow{display:block}
  .drawing svg{width:100%}ul.advice li{flex-wrap:wrap}}
@media(max-width:900px){.aside,.columns>.answer{display:contents}.columns{display:grid;gap:14px}
  .columns>.answer>.answer{order:2}.aside>*:nth-child(1){order:1}.aside>*:nth-child(2){order:3}
  .aside>*:nth-child(3){order:4}.headline{scroll-margin-bottom:60vh}}
@media(max-width:560px){table,thead,tbody{display:block}tr{display:flex;flex-wrap:wrap;gap:2px 14px;padding:8px 0;
  border-bottom:1px solid color-mix(in srgb,var(--sw-line) 40%,transparent)}
  th,td{display:block;border:0;padding:0}td.left:last-child{flex-basis:100%;min-width:0}
  td.left{min-width:0}td.right::before{content:attr(data-name) " ";color:var(--sw-muted);font-size:12px}
  thead:not(:has([aria-sort])){display:none}td.left:first-child{font-weight:600}}
@media(min-width:560px) and (max-width:900px){.if-wide{display:block}.if-narrow{display:none}}
@media(prefers-reduced-motion:reduce){*{transition:none!important;animation:none!important}}
@media(forced-colors:active){.badge,.warnings,.button{border:1px solid}}
"""
)
